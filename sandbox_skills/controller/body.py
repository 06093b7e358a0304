"""How much of an answer is taken. What is held of one is half a gigabyte at most, whatever a server sends. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.errors import ModelAnswerError
from sandbox_skills.spec import MIB

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

MAX_BODY = 128 * MIB
"""Bytes of one answer, unpacked. Half a million tokens, each in an event of its own, are as many."""

MAX_MARKS = 8_000_000
"""Objects, lists and commas of one answer. JSON of many small values takes twenty times its bytes to hold; an event has
about ten of these, so that as many events fit as `MAX_BODY` has room for."""

_MARKS = (b"{", b"[", b",")


async def bounded(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """Yields an answer's bytes; raises ModelAnswerError for more of them than any model makes."""
    size = marks = 0
    async for chunk in chunks:
        size += len(chunk)
        marks += sum(map(chunk.count, _MARKS))
        if size > MAX_BODY or marks > MAX_MARKS:
            raise ModelAnswerError(f"the server sends an answer of more than {MAX_BODY / MIB:g} MiB")
        yield chunk
