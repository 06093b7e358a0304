from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.daemon.truth.serial_thread import SerialThread

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.anyio


@pytest.fixture
def thread() -> Iterator[SerialThread]:
    made = SerialThread("test")
    yield made
    made.close()


async def test_all_is_done_in_the_order_in_which_it_was_asked_for(thread: SerialThread) -> None:
    done: list[int] = []
    await asyncio.gather(*(thread.run(lambda number=number: done.append(number)) for number in range(100)))  # type: ignore[misc]
    assert done == list(range(100))
    assert await thread.run(lambda: threading.current_thread().name) == "test"


async def test_it_is_idle_between_what_it_was_asked_for_until_it_is_closed(thread: SerialThread) -> None:
    release = threading.Event()
    first = thread.run(lambda: release.wait(10))
    assert not thread.is_idle
    release.set()
    await first
    while not thread.is_idle:  # noqa: ASYNC110  # a thread sets no event of this loop
        await asyncio.sleep(0.001)  # it tells before it looks for more
    thread.close()
    assert not thread.is_idle


async def test_an_error_comes_to_who_asked_and_the_thread_goes_on(thread: SerialThread) -> None:
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await thread.run(fail)
    assert await thread.run(lambda: 1) == 1


async def test_a_cancel_leaves_what_is_begun_and_takes_back_what_is_not(thread: SerialThread) -> None:
    began, may_end = threading.Event(), threading.Event()
    done: list[str] = []

    def first() -> None:
        began.set()
        may_end.wait()
        done.append("first")

    begun, waits = thread.run(first), thread.run(lambda: done.append("second"))
    began.wait()
    assert (begun.cancel(), waits.cancel()) == (True, True)
    may_end.set()
    await thread.run(lambda: done.append("third"))
    assert done == ["first", "third"]


async def test_closing_waits_for_what_was_asked_for_and_then_nothing_is_taken() -> None:
    thread, done = SerialThread("test"), list[int]()
    asked = thread.run(lambda: done.append(1))
    thread.close()
    assert done == [1]
    await asked
    with pytest.raises(RuntimeError, match="the thread test is closed"):
        thread.run(lambda: None)


def test_a_loop_that_is_gone_does_not_end_the_thread(thread: SerialThread) -> None:
    may_end = threading.Event()

    async def ask() -> None:
        thread.run(may_end.wait)

    asyncio.run(ask())
    may_end.set()

    async def again() -> str:
        return await thread.run(lambda: "still there")

    assert asyncio.run(again()) == "still there"
