"""Every request has an id: the client's own where it is a decent one, and every answer tells it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ulid import ULID

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = b"x-request-id"

_DECENT = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
"""What may stand in a log and in a header as it is; longer ones than any tracer makes are none."""


class RequestIds:
    """Gives each request an id and puts it into the answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        chosen = _chosen(scope)
        scope.setdefault("state", {})["request_id"] = chosen
        told = (HEADER, chosen.encode())

        async def telling(message: Message) -> None:
            if message["type"] in {"http.response.start", "websocket.accept"}:
                message = {**message, "headers": [*message.get("headers", ()), told]}
            await send(message)

        await self._app(scope, receive, telling)


def request_id_of(scope: Scope) -> str:
    """Returns the id of a request; a new one where the request came by another way."""
    found: str | None = scope.get("state", {}).get("request_id")
    return found or str(ULID())


def _chosen(scope: Scope) -> str:
    given = next((value for name, value in scope["headers"] if name == HEADER), b"")
    return given.decode() if _DECENT.fullmatch(given) else str(ULID())
