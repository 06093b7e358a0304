"""No request is longer than the server takes, whatever it says of its own length, nor comes for ever."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException

from sandbox_skills.spec import KIB

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Message, Receive, Scope

STALL_SECONDS = 20.0
"""Longest wait for the next bytes: whoever is slower than this is not coming back, or means harm."""

SLOWEST = 1 * KIB
"""Bytes a second that a body makes on the whole: a tenth of what a modem did; a byte now and then is no client."""

WHOLE = "body_is_here"
"""Name in a request's state: the connection says so of one that was there to its end before anybody asked for it."""

TIMEOUT = 408
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

    def bounded(self, scope: Scope, headers: Mapping[bytes, bytes], receive: Receive) -> Receive:
        """Returns how a request is read; that raises HTTPException for one that is too long, or comes too slowly.

        One that says so itself is refused before its first byte.
        """
        most = self.of(scope["method"], headers.get(b"content-type", b""))
        told = headers.get(b"content-length", b"")
        if told.isdigit() and int(told[:20]) > most:
            return _refusing(most)
        # What has come whole, and is as long as it says, needs no watch: to set one takes a twentieth of a request.
        return receive if told and scope["state"].get(WHOLE) else _Body(receive, most).receive


class _Body:
    """A body that comes in time and ends in time, or is given up."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive = receive
        self._most = most
        self._read = 0
        self._whole = False
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()

    async def receive(self) -> Message:
        """Returns the next message; behind the body that is the client's going, whenever it is."""
        if self._whole:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._deadline()):
                message = await self._receive()
        except TimeoutError as error:
            raise _stalled() from error
        self._whole = not message.get("more_body", False)
        self._read += len(message.get("body", b""))
        if self._read > self._most:
            raise _too_large(self._most)
        return message

    def _deadline(self) -> float:
        slowest = self._began + STALL_SECONDS + self._read / SLOWEST
        return min(slowest, self._loop.time() + STALL_SECONDS)


def _refusing(most: int) -> Receive:
    async def receive() -> Message:
        raise _too_large(most)

    return receive


def _too_large(most: int) -> HTTPException:
    """Returns the refusal, as the framework's own error: it passes that through where it reads a body."""
    return HTTPException(TOO_LARGE, f"a request of this kind may have {most} bytes")


def _stalled() -> HTTPException:
    return HTTPException(
        TIMEOUT,
        f"nothing of the body came for {STALL_SECONDS:g} seconds, or less than {SLOWEST} bytes a second",
    )
