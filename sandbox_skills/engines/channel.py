"""The byte stream to a box, as asyncio sees it: what an engine gives to `RunnerClient`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Callable


class Channel(Protocol):
    """Bytes there and back. Incoming bytes go to the receiver that the maker was given."""

    def write(self, data: bytes) -> None:
        """Queues bytes for the box; silently nothing once the channel is closed."""
        ...

    async def drain(self) -> None:
        """Returns once the queue is short enough to write more; at once when the channel is closed."""
        ...

    def rest(self, seconds: float) -> None:
        """Takes nothing from the box for so long; what it sends meanwhile waits on its side."""
        ...

    def close(self) -> None:
        """Ends the channel at once, unsent bytes included. May be called again."""
        ...


class Receiver(Protocol):
    """Takes what comes from the box. Called on the event loop; must not block."""

    def received(self, data: memoryview) -> None: ...

    def lost(self, reason: str) -> None:
        """The channel has ended; called once, and nothing comes after it."""
        ...


class StreamProtocol(asyncio.BufferedProtocol):
    """Asyncio's side of a channel: reads into one buffer that is never reallocated."""

    BUFFER = 512 * 1024  # two of the longest frames: of what comes at once, few are in two parts

    def __init__(self, consume: Callable[[memoryview], None], lost: Callable[[str], None]) -> None:
        self._consume = consume
        self._lost = lost
        self._view = memoryview(bytearray(self.BUFFER))
        self._transport: asyncio.Transport | None = None
        self._resting: asyncio.TimerHandle | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Other event loops, such as uvloop, have transports that are no subclasses.
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        if not self._closed:
            self._consume(self._view[:nbytes])

    def eof_received(self) -> bool:
        self._end("the channel reached its end")
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(f"the channel broke: {exc}" if exc else "the channel was closed")
        # Whoever consumes refers back to this: each box that had gone kept two until garbage was collected.
        self._view = memoryview(b"")

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._closed:
            self._transport.write(data)

    async def drain(self) -> None:
        await self._writable.wait()

    def rest(self, seconds: float) -> None:
        if self._transport is None or self._closed:
            return
        if self._resting is None:
            self._transport.pause_reading()
        else:
            self._resting.cancel()
        self._resting = asyncio.get_running_loop().call_later(seconds, self._go_on)

    def _go_on(self) -> None:
        self._resting = None
        if self._transport is not None and not self._closed:
            self._transport.resume_reading()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        self._end("the channel was closed")

    def _end(self, reason: str) -> None:
        if self._closed:
            return
        self._closed = True
        if self._resting is not None:
            self._resting.cancel()
        self._writable.set()
        self._lost(reason)
