"""The channel to the host."""

from __future__ import annotations

import os
from itertools import islice
from typing import TYPE_CHECKING

from .lean import deque
from .protocol import HEADER, MAX_DATA, MAX_JSON, RAW, Kind
from .refusals import BrokenChannelError

if TYPE_CHECKING:
    from collections.abc import Iterator


OUTGOING_HIGH = 1024 * 1024
"""Bytes queued for the host above which no more is read for it: four full frames keep any channel busy."""


class Channel:
    """The byte stream to the host, as frames. Neither reading nor writing blocks."""

    WRITE_BUFFERS = 128
    """Buffers for one writev: 64 frames, far below the kernel's 1,024."""

    def __init__(self, source: int, sink: int) -> None:
        self.source = source
        self.sink = sink
        self.queued = 0
        self._outgoing: deque[bytes | memoryview] = deque()
        self._incoming = bytearray()
        for descriptor in (source, sink):
            os.set_blocking(descriptor, False)

    def send(self, kind: int, ref: int, payload: bytes | memoryview = b"") -> None:
        """Queues a frame; header and payload stay apart, so that nothing is copied."""
        self._outgoing.append(HEADER.pack(kind, ref, len(payload)))
        if payload:
            self._outgoing.append(payload)
        self.queued += HEADER.size + len(payload)

    def flush(self) -> None:
        """Writes as much as the host takes now; raises OSError when it is gone."""
        while self._outgoing:
            batch = list(islice(self._outgoing, self.WRITE_BUFFERS))
            try:
                written = os.writev(self.sink, batch)
            except BlockingIOError:
                return
            self._forget(written)

    def _forget(self, written: int) -> None:
        self.queued -= written
        if not self.queued:
            self._outgoing.clear()
            return
        while written:
            first = self._outgoing.popleft()
            if len(first) > written:
                self._outgoing.appendleft(memoryview(first)[written:])
                return
            written -= len(first)

    def receive(self, buffer: bytearray) -> bool:
        """Reads once through `buffer`; returns False when the host has closed the channel."""
        try:
            count = os.readv(self.source, [buffer])
        except BlockingIOError:
            return True
        except ConnectionResetError:
            return False
        self._incoming += memoryview(buffer)[:count]
        return count > 0

    def frames(self) -> Iterator[tuple[int, int, bytes]]:
        """Yields the frames that are complete; raises BrokenChannelError for one that may not be."""
        offset = 0
        try:
            while len(self._incoming) - offset >= HEADER.size:
                number, ref, length = HEADER.unpack_from(self._incoming, offset)
                kind = self._checked(number, length)
                start = offset + HEADER.size
                if len(self._incoming) < start + length:
                    return
                offset = start + length
                with memoryview(self._incoming) as view:
                    payload = bytes(view[start:offset])
                yield kind, ref, payload
        finally:
            del self._incoming[:offset]

    @staticmethod
    def _checked(number: int, length: int) -> int:
        if not Kind.PING <= number <= Kind.SIGNAL:
            raise BrokenChannelError(f"unknown frame kind {number}")
        if length > (MAX_DATA if number in RAW else MAX_JSON):
            raise BrokenChannelError(f"frame of kind {number} of {length} bytes")
        return number
