"""How clients reach the server: over stdin and stdout, or over streamable HTTP."""

from __future__ import annotations

import asyncio
import hmac
from typing import TYPE_CHECKING

import uvicorn
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import JSONResponse

from sandbox_skills.engines.cancellation import finish
from sandbox_skills.errors import SettingsError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from sandbox_skills.mcp.server import SkillServer

PATH = "/mcp"
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})

GRACE_SECONDS = 3
"""For clients that listen, and never hang up by themselves, when the server ends."""

_OWN_NAMES = ("127.0.0.1", "localhost", "[::1]")
"""What a client on this host calls it."""


async def serve_stdio(server: SkillServer) -> None:
    """Serves the client at stdin and stdout until it closes them."""
    mcp = server.server()
    async with stdio_server() as (read, write), server.watching():
        await mcp.run(read, write, server.options(mcp))


async def serve_http(server: SkillServer, *, host: str, port: int, token: str = "") -> None:
    """Serves clients over HTTP until the program is stopped.

    With a token every request needs it as a bearer token; without one only loopback addresses are served. Raises
    SettingsError for another address without a token.
    """
    app = http_app(server, host=host, token=token)
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http="h11",  # bounds the head of a request; the other parser would be taken where it is installed
        log_level="warning",
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    async with server.watching():
        await _served(uvicorn.Server(config))


async def _served(web: uvicorn.Server) -> None:
    """Serves until it is told to stop; a cancel tells it, so that its connections are closed and not dropped."""
    serving = asyncio.ensure_future(web.serve())
    try:
        await asyncio.shield(serving)
    finally:
        web.should_exit = True
        await finish(_ended(serving))


async def _ended(serving: asyncio.Future[None]) -> None:
    await serving


def http_app(server: SkillServer, *, host: str, token: str = "") -> ASGIApp:
    """Returns the ASGI application; requests whose Host or Origin is another than ours are refused."""
    if host not in LOOPBACK and not token:
        raise SettingsError(
            f"everybody who reaches {host} could run skills here", hint="set a token, or serve 127.0.0.1"
        )
    # Elsewhere the token keeps out a page that a browser was led to; the names of this host are not known here.
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=host in LOOPBACK,
        allowed_hosts=[f"{name}{port}" for name in _OWN_NAMES for port in ("", ":*")],
        allowed_origins=[f"http://{name}:*" for name in _OWN_NAMES],
    )
    app = server.server().streamable_http_app(
        streamable_http_path=PATH, host=host, transport_security=security
    )
    return _BearerToken(app, token) if token else app


class _BearerToken:
    """Lets only requests pass that know the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers: dict[bytes, bytes] = dict(scope["headers"])
            if not hmac.compare_digest(headers.get(b"authorization", b""), self._expected):
                refusal = JSONResponse(
                    {"error": "a valid bearer token is needed"},
                    status_code=401,
                    headers={"WWW-Authenticate": "Bearer"},
                )
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)
