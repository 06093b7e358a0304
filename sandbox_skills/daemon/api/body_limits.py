"""No request is longer than the server takes, whatever it says of its own length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException

from sandbox_skills.daemon.api.problems import answer_of
from sandbox_skills.daemon.api.request_ids import request_id_of
from sandbox_skills.daemon.errors import BodyError

if TYPE_CHECKING:
    from starlette.responses import Response
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
        if headers.keys() >= {b"content-length", b"transfer-encoding"}:
            await _ambiguous(scope)(scope, receive, send)
            return
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


def _ambiguous(scope: Scope) -> Response:
    """Returns the refusal of a request with two lengths, and the end of its connection (RFC 9112, 6.1).

    A proxy that believes the other one would take what is behind it for a request of somebody else's.
    """
    error = BodyError("the request has a Content-Length and a Transfer-Encoding", hint="send one of them")
    answer = answer_of(error, request_id=request_id_of(scope))
    answer.headers["Connection"] = "close"
    return answer


def _too_large(most: int) -> HTTPException:
    """Returns the refusal, as the framework's own error: it passes that through where it reads a body."""
    return HTTPException(TOO_LARGE, f"a request of this kind may have {most} bytes")
