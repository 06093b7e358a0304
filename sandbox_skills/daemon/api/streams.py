"""Streams that live as long as their reader does: what comes is sent at once, and silence is broken now and then."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from starlette.types import Message, Receive, Send

T = TypeVar("T")

QUIET_SECONDS = 15.0
"""Silence after which something is sent that means nothing: proxies hang up after thirty to sixty seconds."""

LOOK_SECONDS = 15.0
"""Between two looks at whether a key counts still: for so long, one that was revoked is listened to."""


async def spoken(
    events: AsyncGenerator[T], spell: Callable[[T], bytes], quiet: bytes, *, seconds: float = QUIET_SECONDS
) -> AsyncGenerator[bytes]:
    """Yields what `spell` makes of each event, and `quiet` where none came for so long. Leaving it ends `events`."""
    async with aclosing(events):
        while True:
            waiting = asyncio.ensure_future(anext(events, None))
            try:
                while not (await asyncio.wait([waiting], timeout=seconds))[0]:
                    yield quiet
                event = waiting.result()
            finally:
                # A generator that is asked cannot be closed.
                if not waiting.done():
                    waiting.cancel()
                    await asyncio.wait([waiting])
            if event is None:
                return
            yield spell(event)


async def while_allowed(
    chunks: AsyncGenerator[bytes], allowed: Callable[[], Awaitable[bool]]
) -> AsyncGenerator[bytes]:
    """Yields chunks for as long as `allowed` says so, which is asked again every LOOK_SECONDS."""
    looked = time.monotonic()
    async with aclosing(chunks):
        async for chunk in chunks:
            if time.monotonic() - looked >= LOOK_SECONDS:
                if not await allowed():
                    return
                looked = time.monotonic()
            yield chunk


class HeldOpen:
    """An answer of another's making that may last for ever: as if the client hung up when its key counts no more.

    `allowed` is asked every LOOK_SECONDS while the answer waits for the client, which is how it learns of its going.
    """

    def __init__(self, receive: Receive, send: Send, allowed: Callable[[], Awaitable[bool]]) -> None:
        self._receive = receive
        self._send = send
        self._allowed = allowed
        self.refused = False
        self.begun = False
        self._ended = False

    async def receive(self) -> Message:
        """Returns what the client says next, or that it has gone."""
        waiting = asyncio.ensure_future(self._receive())
        try:
            while not (await asyncio.wait([waiting], timeout=LOOK_SECONDS))[0]:
                if not await self._allowed():
                    self.refused = True
                    return {"type": "http.disconnect"}
            return waiting.result()
        finally:
            if not waiting.done():
                waiting.cancel()
                await asyncio.wait([waiting])

    async def send(self, message: Message) -> None:
        """Passes on a piece of the answer."""
        self.begun = True
        self._ended = message["type"] == "http.response.body" and not message.get("more_body", False)
        await self._send(message)

    async def end(self) -> None:
        """Ends an answer that was begun: whoever believes its client gone leaves it open."""
        if self.begun and not self._ended:
            await self.send({"type": "http.response.body", "body": b"", "more_body": False})
