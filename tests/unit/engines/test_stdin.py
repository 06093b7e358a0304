"""Standard input on its way: whole, in order, and never ahead of what the box has room for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.engines.stdin import Stdin
from sandbox_skills.engines.wire import MAX_DATA, STDIN_WINDOW, Kind
from sandbox_skills.errors import RunnerProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.anyio


class Box:
    """Takes what is sent; `untaken` is what the program has not read."""

    def __init__(self) -> None:
        self.kinds: list[Kind] = []
        self.got = bytearray()
        self.untaken = 0
        self.stdin = Stdin(self)

    def __call__(self, kind: Kind, data: bytes = b"", /) -> None:
        self.kinds.append(kind)
        self.got += data
        self.untaken += len(data)
        assert len(data) <= MAX_DATA
        assert self.untaken <= STDIN_WINDOW

    def take(self, count: int) -> None:
        if count := min(count, self.untaken):
            self.untaken -= count
            self.stdin.grant(count)


async def test_a_short_input_goes_at_once_and_is_closed() -> None:
    box = Box()
    box.stdin.feed(b"abc")
    box.stdin.close()
    box.stdin.close()
    box.stdin.feed(b"late")
    assert (box.kinds, bytes(box.got)) == ([Kind.STDIN, Kind.CLOSE_STDIN], b"abc")
    assert not box.stdin.accepts


async def test_nothing_is_closed_before_all_was_sent() -> None:
    box = Box()
    box.stdin.feed(bytes(STDIN_WINDOW + 1))
    box.stdin.close()
    assert Kind.CLOSE_STDIN not in box.kinds
    box.take(1)
    assert box.kinds[-2:] == [Kind.STDIN, Kind.CLOSE_STDIN]


async def test_waiting_ends_when_all_was_sent_or_dropped() -> None:
    ends: list[Callable[[Box], None]] = [
        lambda box: box.take(2),
        lambda box: box.stdin.drop(),
        lambda box: box.stdin.refused(),
    ]
    for end in ends:
        box = Box()
        box.stdin.feed(bytes(STDIN_WINDOW + 2))
        waiting = asyncio.ensure_future(box.stdin.drained())
        await asyncio.sleep(0)
        assert not waiting.done()
        end(box)
        await asyncio.wait_for(waiting, 1)


async def test_a_program_that_reads_no_more_gets_no_more() -> None:
    box = Box()
    box.stdin.refused()
    box.stdin.feed(b"x")
    box.stdin.close()
    assert (box.kinds, box.stdin.accepts) == ([], False)


@pytest.mark.parametrize("count", [0, -1, 11, True, None, "1", 1.5, [], 1 << 70])
async def test_a_grant_of_what_was_never_sent_is_a_breach(count: object) -> None:
    box = Box()
    box.stdin.feed(bytes(10))
    with pytest.raises(RunnerProtocolError):
        box.stdin.grant(count)


async def test_an_input_that_is_closed_twice_is_a_breach() -> None:
    box = Box()
    box.stdin.close()
    box.stdin.refused()
    with pytest.raises(RunnerProtocolError):
        box.stdin.refused()


@given(st.lists(st.integers(0, 3 * STDIN_WINDOW // 2) | st.integers(-STDIN_WINDOW, 0), max_size=12))
async def test_all_of_it_arrives_in_order(steps: list[int]) -> None:
    """A positive step feeds as many bytes, a negative one is read by the program."""
    box = Box()
    sent = bytearray()
    for step in steps:
        if step > 0:
            data = bytes([len(sent) % 251]) * step
            sent += data
            box.stdin.feed(data)
        else:
            box.take(-step)
    box.stdin.close()
    while box.untaken:
        box.take(STDIN_WINDOW)
    assert bytes(box.got) == bytes(sent)
    assert box.kinds[-1] is Kind.CLOSE_STDIN
