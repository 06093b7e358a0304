"""No request is longer than the server takes, whatever it says of its own length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOO_LARGE = 413


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """Bytes of a request: of one that is JSON, of an upload in parts, and of a file that is put."""

    plain: int
    upload: int
    file: int

    def of(self, method: str, content_type: bytes) -> int:
        """Returns how long a request may be. Pure."""
        if content_type.lower().startswith(b"multipart/"):
            return self.upload
        return self.file if method == "PUT" else self.plain


class BoundedBodies:
    """Refuses what is too long: before the first byte where its length is told, else when it turns out."""

    def __init__(self, app: ASGIApp, limits: BodyLimits) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        most = self._limits.of(scope["method"], headers.get(b"content-type", b""))
        told = headers.get(b"content-length", b"0")
        too_long = told.isdigit() and int(told[:20]) > most
        read = 0

        async def bounded() -> Message:
            nonlocal read
            if too_long:
                raise _too_large(most)
            message = await receive()
            read += len(message.get("body", b""))
            if read > most:
                raise _too_large(most)
            return message

        await self._app(scope, bounded, send)


def _too_large(most: int) -> HTTPException:
    """Returns the refusal, as the framework's own error: it passes that through where it reads a body."""
    return HTTPException(TOO_LARGE, f"a request of this kind may have {most} bytes")
