"""What a server has packed, unpacked by the piece: one packet may hold a thousand times what it weighs.

httpx unpacks a packet as a whole, and packings inside one another; a server could take all memory with a few of them.
"""

from __future__ import annotations

import zlib
from contextlib import aclosing
from typing import TYPE_CHECKING, cast

import httpx

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Iterator

ACCEPTED = "gzip"
"""The one packing that is asked for: every server has it, and it can be unpacked by the piece."""

PIECE = 64 * 1024
"""Bytes of one piece, as many as are read of a connection at once."""

_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
"""What `zlib` calls either header."""


async def unpacked(response: httpx.Response) -> AsyncGenerator[bytes]:
    """Yields a body as it comes; raises httpx.DecodingError for one that is torn, or packed in another way."""
    unpack = _unpacking(response.headers.get("content-encoding", ""))
    async with aclosing(cast("AsyncGenerator[bytes]", response.aiter_raw())) as packets:
        async for packet in packets:
            for piece in unpack(packet):
                yield piece


def _unpacking(encoding: str) -> Callable[[bytes], Iterable[bytes]]:
    match encoding.strip().lower():
        case "" | "identity":
            return lambda packet: (packet,)
        case "gzip" | "x-gzip" | "deflate":
            return _gunzipping()
        case other:
            raise httpx.DecodingError(f"it is packed as {other[:40]!r}, which was not asked for")


def _gunzipping() -> Callable[[bytes], Iterable[bytes]]:
    unpacker = zlib.decompressobj(_GZIP_OR_ZLIB)

    def unpack(packet: bytes) -> Iterator[bytes]:
        while True:
            try:
                piece = unpacker.decompress(packet, PIECE)
            except zlib.error as error:
                raise httpx.DecodingError(str(error)) from error
            if piece:
                yield piece
            packet = unpacker.unconsumed_tail
            if not packet and len(piece) < PIECE:
                return

    return unpack
