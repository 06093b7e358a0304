"""Clean-up goes to its end, whoever cancels and however often."""

from __future__ import annotations

import asyncio
import time

import anyio
import pytest

from sandbox_skills.engines.cancellation import finish

pytestmark = pytest.mark.anyio

STEP = 0.05


class Work:
    """Takes a moment, and remembers whether it came to its end."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.done = False

    async def __call__(self) -> str:
        await asyncio.sleep(STEP)
        await asyncio.sleep(STEP)
        self.done = True
        if self.error:
            raise self.error
        return "result"


async def test_without_a_cancel_it_is_an_ordinary_call() -> None:
    assert await finish(Work()()) == "result"
    with pytest.raises(ValueError, match="its own"):
        await finish(Work(ValueError("its own"))())


@pytest.mark.parametrize("times", [1, 2, 5])
async def test_a_cancelled_caller_hears_of_it_after_the_end(times: int) -> None:
    work = Work()
    task = asyncio.ensure_future(finish(work()))
    for _ in range(times):
        await asyncio.sleep(STEP / 4)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert work.done


@pytest.mark.parametrize("times", [1, 3])
async def test_work_that_takes_longer_than_the_grace_is_cancelled(times: int) -> None:
    ended: list[str] = []

    async def endless() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            ended.append("cleaned up")

    task = asyncio.ensure_future(finish(endless(), grace=STEP))
    started = time.monotonic()
    for _ in range(times):
        await asyncio.sleep(STEP / 4)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["cleaned up"]
    assert STEP < time.monotonic() - started < 60 * STEP


async def test_a_cancel_scope_gives_the_same_grace() -> None:
    started = time.monotonic()
    with anyio.move_on_after(STEP / 4) as scope:
        await finish(asyncio.sleep(10), grace=STEP)
    assert scope.cancelled_caught
    assert STEP < time.monotonic() - started < 60 * STEP


async def test_a_grace_changes_nothing_for_work_that_keeps_to_it_or_is_not_cancelled() -> None:
    assert await finish(Work()(), grace=0.0) == "result"
    work = Work()
    task = asyncio.ensure_future(finish(work(), grace=3600))
    await asyncio.sleep(STEP / 4)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert work.done


async def test_the_cancel_wins_over_the_works_own_error() -> None:
    work = Work(ValueError("nobody hears of it"))
    task = asyncio.ensure_future(finish(work()))
    await asyncio.sleep(STEP / 4)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert work.done


async def test_a_cancel_scope_waits_for_the_end() -> None:
    work = Work()
    with anyio.move_on_after(STEP / 4) as scope:
        await finish(work())
        await anyio.sleep(10)
    assert scope.cancelled_caught
    assert work.done


async def test_it_works_in_clean_up_of_a_scope_that_is_cancelled_already() -> None:
    work = Work()
    with anyio.move_on_after(STEP / 4):
        try:
            await anyio.sleep(10)
        finally:
            assert await finish(work()) == "result"
    assert work.done


async def test_a_timeout_of_asyncio_stays_a_timeout() -> None:
    work = Work()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(STEP / 4):
            await finish(work())
    assert work.done


async def test_the_parts_of_a_task_group_that_fails_come_to_their_end() -> None:
    work = Work()

    async def fails() -> None:
        await asyncio.sleep(STEP / 4)
        raise ValueError("the other one")

    async def both() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(finish(work()))
            group.create_task(fails())

    with pytest.raises(ExceptionGroup):
        await both()
    assert work.done
