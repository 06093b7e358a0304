"""Bytes that strangers made, handed out so that no browser runs them: whole, or the one range that is asked for."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from fastapi.responses import StreamingResponse

from sandbox_skills.daemon.errors import RangeError

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")

HARMLESS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "private, no-store",
    "Accept-Ranges": "bytes",
}
"""Whatever the type says, a browser saves it, and could run nothing of it in this origin."""

BINARY = "application/octet-stream"

CONTENT_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The bytes.",
        "content": {"*/*": {"schema": {"type": "string", "format": "binary"}}},
    },
    206: {
        "description": "The range that was asked for.",
        "content": {"*/*": {"schema": {"type": "string", "format": "binary"}}},
    },
}


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes from `start` on, `length` of them."""

    start: int
    length: int


def span_of(header: str | None, size: int) -> Span | None:
    """Returns what a Range header asks for, None for all; raises RangeError. Pure.

    Several ranges, and what is no range of bytes, count as none: a server may (RFC 9110, 14.2).
    """
    found = _RANGE.fullmatch((header or "").strip())
    if found is None or not any(found.groups()):
        return None
    first, last = found.groups()
    if not first:
        start, end = max(0, size - int(last)), size - 1
    else:
        start, end = int(first), min(int(last), size - 1) if last else size - 1
    if start >= size or end < start:
        raise RangeError(f"there are {size} bytes", size=size)
    return Span(start, end - start + 1)


def disposition(name: str) -> str:
    """Returns the header that has a browser save a file under its name, whatever characters that has. Pure."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:128] or "file"
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


async def content(
    opened: AbstractAsyncContextManager[Readable], *, wanted: str | None, name: str, media_type: str
) -> StreamingResponse:
    """Returns the answer with the bytes of what is opened; it is closed with the answer. Raises as entering does."""
    stack = AsyncExitStack()
    try:
        found = await stack.enter_async_context(opened)
        span = span_of(wanted, found.size)
    except BaseException:
        await stack.aclose()
        raise
    taken = span or Span(0, found.size)
    headers = {**HARMLESS, "Content-Disposition": disposition(name), "Content-Length": str(taken.length)}
    if span is not None:
        headers["Content-Range"] = f"bytes {span.start}-{span.start + span.length - 1}/{found.size}"
    return StreamingResponse(
        _closing(stack, found.read(taken)),
        status_code=206 if span is not None else 200,
        headers=headers,
        media_type=media_type,
    )


@dataclass(frozen=True, slots=True)
class Readable:
    """Something of `size` bytes that can be read once, from its beginning."""

    size: int
    chunks: AsyncIterator[bytes]

    async def read(self, span: Span) -> AsyncGenerator[bytes]:
        """Yields the bytes of a span."""
        position, end = 0, span.start + span.length
        async for chunk in self.chunks:
            piece = chunk[max(0, span.start - position) : end - position]
            position += len(chunk)
            if piece:
                yield piece
            if position >= end:
                return


async def _closing(stack: AsyncExitStack, chunks: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    async with stack:
        async for chunk in chunks:
            yield chunk
