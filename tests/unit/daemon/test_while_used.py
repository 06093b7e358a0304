from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.daemon.service.while_used import WhileUsed

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def locks() -> Iterator[WhileUsed[asyncio.Lock]]:
    made = WhileUsed(asyncio.Lock)
    yield made
    assert len(made) == 0


async def test_who_has_a_key_excludes_others_of_it_alone(locks: WhileUsed[asyncio.Lock]) -> None:
    inside, seen = asyncio.Event(), list[str]()

    async def hold() -> None:
        async with locks.of("a"):
            inside.set()
            await asyncio.sleep(0.02)
            seen.append("first")

    async def follow() -> None:
        await inside.wait()
        async with locks.of("b"):
            seen.append("other key")
        async with locks.of("a"):
            seen.append("second")

    await asyncio.gather(hold(), follow())
    assert seen == ["other key", "first", "second"]


async def test_a_wait_that_is_cancelled_leaves_nothing(locks: WhileUsed[asyncio.Lock]) -> None:
    async with locks.of("a"):
        waiting = asyncio.create_task(locks.of("a").acquire())
        await asyncio.sleep(0)
        assert len(locks) == 1
        waiting.cancel()
        await asyncio.wait([waiting])
        del waiting


async def test_as_many_hold_it_as_its_kind_says() -> None:
    places = WhileUsed(lambda: asyncio.Semaphore(2))
    async with places.of("a"), places.of("a"):
        assert places.of("a").locked()
        assert len(places) == 1
    assert len(places) == 0


def test_keys_that_come_and_go_are_forgotten(locks: WhileUsed[asyncio.Lock]) -> None:
    for number in range(1000):
        locks.of(f"session {number}")
    assert len(locks) == 0
