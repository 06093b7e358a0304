"""Live output for a reader that may be slow."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.workspace.live_output import MESSAGE_BYTES, LiveOutput, OutputChunk, OutputGap

pytestmark = pytest.mark.anyio


async def drained(live: LiveOutput) -> list[OutputChunk | OutputGap]:
    live.close()
    return [event async for event in live]


async def test_chunks_come_in_order_and_are_numbered_over_both_streams() -> None:
    live = LiveOutput()
    live("stdout", b"a")
    live("stderr", b"b")
    assert await drained(live) == [OutputChunk(0, "stdout", b"a"), OutputChunk(1, "stderr", b"b")]


async def test_a_reader_that_waits_gets_each_chunk_at_once() -> None:
    live = LiveOutput()
    events = aiter(live)
    for n in range(3):
        waiting = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        live("stdout", b"%d" % n)
        assert await waiting == OutputChunk(n, "stdout", b"%d" % n)
    live.close()
    with pytest.raises(StopAsyncIteration):
        await anext(events)


async def test_a_slow_reader_loses_the_oldest_and_is_told() -> None:
    live = LiveOutput(max_waiting=3 * MESSAGE_BYTES)
    for n in range(10):
        live("stdout", b"%d" % n)
    gap, *rest = await drained(live)
    assert gap == OutputGap(first=0, last=6, size=7)
    assert [event.sequence for event in rest if isinstance(event, OutputChunk)] == [7, 8, 9]


async def test_a_chunk_that_is_larger_than_all_there_is_room_for_is_a_gap() -> None:
    live = LiveOutput(max_waiting=1000)
    live("stdout", bytes(1001))
    assert await drained(live) == [OutputGap(0, 0, 1001)]


@given(st.lists(st.binary(max_size=2000) | st.none(), max_size=60))
async def test_nothing_is_lost_unsaid_and_what_waits_is_bounded(steps: list[bytes | None]) -> None:
    """None stands for the reader's turn."""
    live = LiveOutput(max_waiting=4000)
    seen: list[OutputChunk | OutputGap] = []
    sent = 0
    async with aclosing(live.events()) as events:
        for data in steps:
            if data is not None:
                live("stdout", data)
                sent += 1
            elif live.waiting:
                seen.append(await anext(events))
            assert sum(len(chunk.data) for chunk in live._chunks) <= 4000
        seen += await drained(live)
    numbers: list[int] = []
    for event in seen:
        numbers += [event.sequence] if isinstance(event, OutputChunk) else range(event.first, event.last + 1)
    assert numbers == list(range(sent))
