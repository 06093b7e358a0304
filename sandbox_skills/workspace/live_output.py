"""Output while it comes, for one reader that may be slow: numbered, bounded, and honest about what it missed."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

MAX_WAITING = 1024 * 1024
"""Bytes that wait for the reader: four of the largest messages, and as much as a run keeps of a stream."""

MESSAGE_BYTES = 512
"""What one message counts at least, so that many small ones are bounded too: more than its object takes."""


@dataclass(frozen=True, slots=True)
class OutputChunk:
    """What a program wrote, as it came; `sequence` counts from 0 over both streams."""

    sequence: int
    stream: Literal["stdout", "stderr"]
    data: bytes


@dataclass(frozen=True, slots=True)
class OutputGap:
    """Chunks that the reader was too slow for: those from `first` to `last`, `size` bytes in all."""

    first: int
    last: int
    size: int


class LiveOutput:
    """An OutputSink that can be iterated over, once. When too much waits, the oldest goes."""

    def __init__(self, *, max_waiting: int = MAX_WAITING) -> None:
        self._max_waiting = max_waiting
        self._chunks: deque[OutputChunk] = deque()
        self._waiting = 0
        self._gap: OutputGap | None = None
        self._sequence = 0
        self._closed = False
        self._arrived = asyncio.Event()

    def __call__(self, stream: Literal["stdout", "stderr"], data: bytes, /) -> None:
        chunk = OutputChunk(self._sequence, stream, data)
        self._sequence += 1
        self._chunks.append(chunk)
        self._waiting += _weight(chunk)
        while self._waiting > self._max_waiting:
            self._lose(self._chunks.popleft())
        self._arrived.set()

    @property
    def waiting(self) -> bool:
        """Whether there is something to be read."""
        return self._gap is not None or bool(self._chunks)

    def close(self) -> None:
        """Ends the iteration behind what waits."""
        self._closed = True
        self._arrived.set()

    def __aiter__(self) -> AsyncIterator[OutputChunk | OutputGap]:
        return self.events()

    async def events(self) -> AsyncGenerator[OutputChunk | OutputGap]:
        """Yields what comes, until it is closed."""
        while (piece := self.take()) is not None or not self._closed:
            if piece is not None:
                yield piece
            else:
                await self.arrived()

    def take(self) -> OutputChunk | OutputGap | None:
        """Returns the next of what waits, None where nothing does."""
        if self._gap is not None:
            gap, self._gap = self._gap, None
            return gap
        if not self._chunks:
            return None
        chunk = self._chunks.popleft()
        self._waiting -= _weight(chunk)
        return chunk

    async def arrived(self) -> None:
        """Waits until there is something to be read, or it was closed."""
        if not self.waiting and not self._closed:
            self._arrived.clear()
            await self._arrived.wait()

    def _lose(self, chunk: OutputChunk) -> None:
        self._waiting -= _weight(chunk)
        first, size = (self._gap.first, self._gap.size) if self._gap else (chunk.sequence, 0)
        self._gap = OutputGap(first, chunk.sequence, size + len(chunk.data))


def _weight(chunk: OutputChunk) -> int:
    return max(len(chunk.data), MESSAGE_BYTES)
