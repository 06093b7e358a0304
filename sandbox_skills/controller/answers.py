"""The bytes of an answer → the answer, whatever the server calls them: events, one JSON value, or a page of an edge."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from sandbox_skills.catalog.text import one_line
from sandbox_skills.controller.json_values import object_of, parsed
from sandbox_skills.errors import ModelAnswerError, ModelUnavailableError
from sandbox_skills.outgoing.sse import MAX_EVENT, SseDecoder
from sandbox_skills.spec import MIB

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from sandbox_skills.controller.events import ModelDelta
    from sandbox_skills.controller.turn import Answer
    from sandbox_skills.controller.wire import Accumulator, Wire

MAX_SHOWN = 200
"""Characters of an answer that is no JSON: enough to see whose page it is."""

DONE = b"[DONE]"
"""Ends a stream of either wire, where a server sends it."""

FIGURES_SECONDS = 2.0
"""How long the tokens' count is waited for when the answer itself is whole: some servers leave the connection open."""


async def read_answer(chunks: AsyncIterator[bytes], wire: Wire, hear: Callable[[ModelDelta], None]) -> Answer:
    """Returns the answer as soon as it is whole, without waiting for the end of the connection; raises ModelError."""
    async for chunk in chunks:
        start = chunk.lstrip(b" \t\r\n")
        if not start:
            continue
        if start[:1] in {b"{", b"[", b"<"}:
            return _whole(await _all(start, chunks), wire)
        return await _streamed(chunk, chunks, wire, hear)
    raise ModelUnavailableError("the server's answer is empty", retryable=True)


async def _all(start: bytes, chunks: AsyncIterator[bytes]) -> bytes:
    parts, size = [start], len(start)
    async for chunk in chunks:
        parts.append(chunk)
        size += len(chunk)
        if size > MAX_EVENT:
            raise ModelAnswerError(f"the server sends an answer of more than {MAX_EVENT // MIB} MiB")
    return b"".join(parts)


def _whole(body: bytes, wire: Wire) -> Answer:
    value = object_of(parsed(body))
    if not value:
        text = one_line(body[: 4 * MAX_SHOWN].decode("utf-8", "replace"), MAX_SHOWN)
        hint = "Is model.base_url the address of an API?"
        raise ModelUnavailableError(f"the server's answer is not JSON: {text}", hint=hint, retryable=True)
    return wire.answer(value)


async def _streamed(
    first: bytes, chunks: AsyncIterator[bytes], wire: Wire, hear: Callable[[ModelDelta], None]
) -> Answer:
    decoder, accumulator = SseDecoder(ModelAnswerError), wire.accumulator()
    chunk = first
    while not _took_all(decoder.feed(chunk), accumulator, hear):
        chunk = b""
        with anyio.move_on_after(FIGURES_SECONDS if accumulator.closing else None):
            await anyio.lowlevel.checkpoint()  # a server that never pauses must not have the loop to itself
            chunk = await anext(chunks, b"")
        if not chunk:
            _took_all(decoder.end(), accumulator, hear)
            break
    return accumulator.end()


def _took_all(events: Iterable[bytes], accumulator: Accumulator, hear: Callable[[ModelDelta], None]) -> bool:
    """Takes events; returns whether the answer is whole, or will not become it."""
    for data in events:
        if data == DONE:
            return True
        value = parsed(data)
        delta = accumulator.feed(object_of(value))
        if delta is not None:
            hear(delta)
        if accumulator.answer is not None:
            return True
    return False
