"""`serve`: the daemon for many tenants."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from sandbox_skills.cli.start import imported
from sandbox_skills.cli.terminal import err, print_json
from sandbox_skills.errors import SettingsError

if TYPE_CHECKING:
    from sandbox_skills.cli.options import GlobalOptions

NEEDED = (
    "fastapi",
    "jinja2",
    "sqlalchemy",
    "alembic",
    "prometheus_client",
    "python_multipart",
    "ulid",
    "uvicorn",
    "uvloop",
    "websockets",
)
"""What the extra brings, by the names that are imported."""


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """The options of `serve`, as they were given. None: as the settings say."""

    host: str | None = None
    port: int | None = None


def check_installed() -> None:
    """Raises SettingsError where something of the extra is missing, which every command of the daemon needs."""
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise SettingsError(
            f"not installed: {', '.join(missing)}", hint="pip install 'sandbox-skills[serve]'"
        )


def serve(options: GlobalOptions, wanted: ServeOptions) -> int:
    """Serves until it is stopped. Raises SettingsError."""
    check_installed()
    port = None if wanted.port is None else str(wanted.port)
    settings = options.settings({"daemon.host": wanted.host, "daemon.port": port})
    import uvloop  # noqa: PLC0415  # only the extra brings it

    from sandbox_skills.daemon.serve import serve as work  # noqa: PLC0415  # a second, which others need not wait for

    def announce(address: str, key: str | None) -> None:
        if options.as_json:
            print_json({"url": address, "key": key})
        elif key is not None:
            err.print(f"the first admin key, shown this once: {key}")
        err.print(f"serving at {address}")

    imported()
    # A run takes a fifth less processor time of this process than on asyncio's own loop (measured).
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work(settings, announce))
    return 0
