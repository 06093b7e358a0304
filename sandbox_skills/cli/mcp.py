"""`mcp`: the skills as tools of an MCP client."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from anyio import to_thread

from sandbox_skills.cli.event_loop import run_async
from sandbox_skills.cli.offered import nothing_offered
from sandbox_skills.cli.terminal import err, print_json
from sandbox_skills.cli.text import harmless_line
from sandbox_skills.errors import SettingsError

if TYPE_CHECKING:
    from sandbox_skills.cli.options import GlobalOptions
    from sandbox_skills.settings import Settings


@dataclass(frozen=True, slots=True)
class McpOptions:
    """The options of `mcp`, as they were given. None: as the settings say."""

    toolsets: tuple[str, ...] = ()
    http: bool = False
    host: str | None = None
    port: int | None = None


def mcp(options: GlobalOptions, wanted: McpOptions) -> int:
    """Serves until the client goes, or over HTTP until it is stopped. Raises SettingsError."""
    if find_spec("mcp") is None or find_spec("uvicorn") is None:
        raise SettingsError("the package mcp is not installed", hint="pip install 'sandbox-skills[mcp]'")
    port = None if wanted.port is None else str(wanted.port)
    settings = options.settings({"mcp.host": wanted.host, "mcp.port": port})
    run_async(_serve(settings, wanted, as_json=options.as_json))
    return 0


async def _serve(settings: Settings, wanted: McpOptions, *, as_json: bool) -> None:
    # Importing them takes half a second, which the other commands need not wait for.
    from sandbox_skills.mcp.opening import opened_server  # noqa: PLC0415
    from sandbox_skills.mcp.transports import PATH, serve_http, serve_stdio  # noqa: PLC0415

    async with opened_server(settings, toolsets=wanted.toolsets) as server:
        if missing := await to_thread.run_sync(nothing_offered, server.resources.skills):
            err.print(harmless_line(f"note: {missing}"))
        if not wanted.http:
            await serve_stdio(server)
            return
        chosen = settings.mcp
        address = f"http://{chosen.host}:{chosen.port}{PATH}"
        if as_json:
            print_json({"url": address})
        err.print(f"serving MCP at {address}")
        token = chosen.token.get_secret_value() if chosen.token is not None else ""
        await serve_http(server, host=chosen.host, port=chosen.port, token=token)
