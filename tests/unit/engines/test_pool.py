"""Boxes kept ahead: each handed out once, fit when it is, and gone afterwards."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.engines import pool as pool_module
from sandbox_skills.engines.fake import FakeEngine, FakeSandbox
from sandbox_skills.engines.pool import PooledEngine
from sandbox_skills.errors import EngineError, EngineUnavailableError, SandboxLostError
from sandbox_skills.spec import SandboxLimits, SandboxSpec

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from sandbox_skills.engines.base import Sandbox

pytestmark = pytest.mark.anyio

SPEC = SandboxSpec(needs=frozenset())

TENANT = SandboxSpec(needs=frozenset(), tenant="one", run="r1")

PATIENCE = 5.0


class SlowEngine(FakeEngine):
    """Takes a moment to start a box, and fails when it is told to."""

    def __init__(self, seconds: float = 0.0) -> None:
        super().__init__()
        self.seconds = seconds
        self.error: Exception | None = None
        self.attempts = 0
        self.asked: list[SandboxSpec] = []
        self.closed = 0

    @asynccontextmanager
    async def open(self, spec: SandboxSpec) -> AsyncGenerator[Sandbox]:
        self.attempts += 1
        await asyncio.sleep(self.seconds)
        if self.error is not None:
            raise self.error
        self.asked.append(spec)
        async with super().open(spec) as sandbox:
            try:
                await asyncio.sleep(self.seconds)
                yield sandbox
            finally:
                await asyncio.sleep(self.seconds)

    async def aclose(self) -> None:
        self.closed += 1


@pytest.fixture
def engine() -> SlowEngine:
    return SlowEngine()


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "RETRY_SECONDS", (0.02, 0.05))
    monkeypatch.setattr(pool_module, "PING_SECONDS", 0.2)


async def full(pool: PooledEngine) -> None:
    await asyncio.wait_for(pool.filled(), PATIENCE)


async def test_a_warm_box_is_handed_out_at_once_and_replaced(engine: SlowEngine) -> None:
    async with PooledEngine(engine, SPEC, size=2) as pool:
        await full(pool)
        started = engine.attempts
        async with pool.open(TENANT):
            assert pool.idle == 1
            await full(pool)
            assert (pool.idle, engine.attempts) == (2, started + 1)
    assert engine.open_sandboxes == {}
    assert engine.closed == 1


async def test_no_box_is_ever_handed_out_twice(engine: SlowEngine) -> None:
    engine.seconds = 0.001
    seen: list[str] = []

    async def use(pool: PooledEngine) -> None:
        async with pool.open(TENANT) as sandbox:
            seen.append(sandbox.id)
            assert sandbox.alive
            await asyncio.sleep(0.001)

    async with PooledEngine(engine, SPEC, size=4) as pool:
        await asyncio.gather(*(use(pool) for _ in range(200)))
        await asyncio.gather(*(use(pool) for _ in range(50)))
    assert len(seen) == len(set(seen)) == 250
    assert engine.open_sandboxes == {}


async def test_a_box_that_waited_names_no_tenant_and_a_cold_one_does(engine: SlowEngine) -> None:
    async with PooledEngine(engine, SPEC, size=1) as pool:
        await full(pool)
        async with pool.open(TENANT), pool.open(TENANT):
            pass
        assert {(spec.tenant, spec.run) for spec in engine.asked} == {("", ""), ("one", "r1")}
        assert all(spec.ttl_seconds >= SPEC.ttl_seconds + 600 for spec in engine.asked if not spec.tenant)


@pytest.mark.parametrize(
    "other",
    [
        SandboxSpec(needs=frozenset(), limits=SandboxLimits(pids=8)),
        SandboxSpec(needs=frozenset(), ttl_seconds=SPEC.ttl_seconds + 1),
    ],
)
async def test_another_box_than_the_pools_is_started_for_the_caller(
    engine: SlowEngine, other: SandboxSpec
) -> None:
    async with PooledEngine(engine, SPEC, size=1) as pool:
        await full(pool)
        async with pool.open(other):
            assert pool.idle == 1
            assert engine.asked[-1] == other


async def test_size_zero_starts_nothing_ahead(engine: SlowEngine) -> None:
    async with PooledEngine(engine, SPEC, size=0) as pool:
        await full(pool)
        assert engine.attempts == 0
        async with pool.open(TENANT) as sandbox:
            assert (sandbox.alive, pool.idle) == (True, 0)
    assert engine.open_sandboxes == {}


async def test_leaving_returns_before_the_box_is_gone_and_closing_waits(engine: SlowEngine) -> None:
    engine.seconds = 0.05
    async with PooledEngine(engine, SPEC, size=0) as pool:
        async with pool.open(SPEC):
            pass
        assert len(engine.open_sandboxes) == 1
    assert engine.open_sandboxes == {}


async def test_a_box_that_was_lost_is_not_handed_out(engine: SlowEngine) -> None:
    async with PooledEngine(engine, SPEC, size=2) as pool:
        await full(pool)
        lost, _ = list(engine.open_sandboxes.values())
        lost.lose()
        async with pool.open(SPEC) as sandbox:
            assert sandbox.id != lost.id
            assert sandbox.alive


async def test_a_box_that_does_not_answer_is_not_handed_out(
    engine: SlowEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent(self: FakeSandbox) -> float:
        if self.id == "fake-1":
            await asyncio.sleep(60)
        return 0.0

    monkeypatch.setattr(FakeSandbox, "ping", silent)
    monkeypatch.setattr(pool_module, "FRESH_SECONDS", 0)
    monkeypatch.setattr(pool_module, "PING_SECONDS", 0.1)
    async with PooledEngine(engine, SPEC, size=1) as pool:
        await full(pool)
        async with pool.open(SPEC) as sandbox:
            assert sandbox.id != "fake-1"
    assert engine.open_sandboxes == {}


async def test_a_waiting_box_that_stops_answering_is_replaced_before_anyone_wants_it(
    engine: SlowEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent(self: FakeSandbox) -> float:
        if self.id == "fake-1":
            await asyncio.sleep(60)
        return 0.0

    monkeypatch.setattr(FakeSandbox, "ping", silent)
    monkeypatch.setattr(pool_module, "HEALTH_SECONDS", 0.05)
    monkeypatch.setattr(pool_module, "PING_SECONDS", 0.05)
    async with PooledEngine(engine, SPEC, size=2) as pool:
        await full(pool)
        async with asyncio.timeout(5):
            while "fake-1" in engine.open_sandboxes:  # noqa: ASYNC110  # the double has no event to wait for
                await asyncio.sleep(0.01)
        await full(pool)
        assert len(engine.open_sandboxes) == 2
    assert engine.open_sandboxes == {}


async def test_a_box_that_answered_lately_is_handed_out_unasked(
    engine: SlowEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def asked(self: FakeSandbox) -> float:
        raise AssertionError("it was asked")

    async with PooledEngine(engine, SPEC, size=1) as pool:
        await full(pool)
        monkeypatch.setattr(FakeSandbox, "ping", asked)
        async with pool.open(SPEC) as sandbox:
            assert sandbox.alive


async def test_a_cancel_during_the_check_ends_the_box(
    engine: SlowEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slow(self: FakeSandbox) -> float:
        await asyncio.sleep(60)
        return 0.0

    monkeypatch.setattr(FakeSandbox, "ping", slow)
    monkeypatch.setattr(pool_module, "FRESH_SECONDS", 0)
    monkeypatch.setattr(pool_module, "PING_SECONDS", 60)
    async with PooledEngine(engine, SPEC, size=1) as pool:
        await full(pool)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05), pool.open(SPEC):
                pytest.fail("it was cancelled")
        await full(pool)
        assert set(engine.open_sandboxes) == {"fake-2"}
    assert engine.open_sandboxes == {}


async def test_boxes_that_have_become_too_old_are_replaced_without_being_asked_for(
    engine: SlowEngine,
) -> None:
    async with PooledEngine(engine, SPEC, size=1, max_age_seconds=0.1) as pool:
        await full(pool)
        await until(lambda: engine.attempts >= 3)
        await until(lambda: set(engine.open_sandboxes).isdisjoint({"fake-1", "fake-2"}))
        async with pool.open(SPEC):
            pass
    assert engine.open_sandboxes == {}


async def test_a_box_lost_while_it_waits_is_replaced_without_being_asked_for(engine: SlowEngine) -> None:
    async with PooledEngine(engine, SPEC, size=1, max_age_seconds=0.1) as pool:
        await full(pool)
        (lost,) = engine.open_sandboxes.values()
        lost.lose()
        await until(lambda: [box.alive for box in engine.open_sandboxes.values()] == [True])


@pytest.mark.parametrize(
    "error", [EngineUnavailableError("no daemon", hint="start it"), ValueError("a fault of ours")]
)
async def test_a_refill_that_fails_says_so_backs_off_and_recovers(
    engine: SlowEngine, error: Exception
) -> None:
    engine.error = error
    begun = time.monotonic()
    async with PooledEngine(engine, SPEC, size=2) as pool:
        with pytest.raises(EngineError, match=str(error)):
            await full(pool)
        await asyncio.sleep(0.3)
        await until(lambda: engine.attempts >= 4)
        pauses = (time.monotonic() - begun) / pool_module.RETRY_SECONDS[0]
        assert engine.attempts <= pool_module.REFILLS * (1 + pauses)
        with pytest.raises(type(error)):
            async with pool.open(SPEC):
                pass
        engine.error = None
        await waiting(pool, 2)
        await full(pool)
    assert engine.open_sandboxes == {}


@pytest.mark.parametrize("after", [0.0, 0.005, 0.02, 0.03, 0.05])
async def test_closing_during_a_refill_leaves_nothing(engine: SlowEngine, after: float) -> None:
    engine.seconds = 0.02
    async with PooledEngine(engine, SPEC, size=4):
        await asyncio.sleep(after)
    assert engine.open_sandboxes == {}


@pytest.mark.parametrize("after", [0.0, 0.01, 0.03, 0.05])
async def test_a_cancel_while_a_box_is_opened_leaves_nothing(engine: SlowEngine, after: float) -> None:
    engine.seconds = 0.02

    async def use(pool: PooledEngine) -> None:
        async with pool.open(SPEC):
            await asyncio.sleep(60)

    async with PooledEngine(engine, SPEC, size=0) as pool:
        tasks = [asyncio.ensure_future(use(pool)) for _ in range(5)]
        await asyncio.sleep(after)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    assert engine.open_sandboxes == {}


async def test_a_cancel_of_whoever_closes_still_ends_every_box(engine: SlowEngine) -> None:
    engine.seconds = 0.02

    async def program() -> None:
        async with PooledEngine(engine, SPEC, size=3) as pool:
            await full(pool)
            await asyncio.sleep(60)

    task = asyncio.ensure_future(program())
    await asyncio.sleep(0.2)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert engine.open_sandboxes == {}


async def test_after_closing_nothing_is_handed_out_and_nobody_waits(engine: SlowEngine) -> None:
    pool = PooledEngine(engine, SPEC, size=1)
    engine.error = EngineError("not yet")
    async with pool:
        with suppress(EngineError):
            await full(pool)
    with pytest.raises(EngineError, match="closed"):
        await full(pool)
    with pytest.raises(EngineError, match="closed"):
        async with pool.open(SPEC):
            pass


async def test_what_a_caller_raises_comes_through(engine: SlowEngine) -> None:
    async with PooledEngine(engine, SPEC, size=1) as pool:
        with pytest.raises(SandboxLostError, match="the caller's"):
            async with pool.open(SPEC):
                raise SandboxLostError("the caller's")
    assert engine.open_sandboxes == {}


async def test_reaping_keeps_what_waits(engine: SlowEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: set[str] = set()

    async def reap(keep: set[str]) -> list[str]:
        kept.update(keep)
        return []

    monkeypatch.setattr(engine, "reap", reap)
    async with PooledEngine(engine, SPEC, size=2) as pool:
        await full(pool)
        await pool.reap([])
        assert kept == set(engine.open_sandboxes)


async def waiting(pool: PooledEngine, count: int) -> None:
    await until(lambda: pool.idle == count)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110  # a pool tells nobody that it changed
            await asyncio.sleep(0.01)


class Clock:
    """A monotonic clock that a test moves on."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    moved = Clock()
    monkeypatch.setattr(pool_module, "time", moved)
    monkeypatch.setattr(pool_module, "GROW_SECONDS", 0.05)
    return moved


async def used(pool: PooledEngine, spec: SandboxSpec, count: int) -> None:
    async def once() -> None:
        async with pool.open(spec):
            pass

    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(once())


def kinds(pool: PooledEngine) -> dict[int, int]:
    return {one.spec.limits.pids: len(one.ready) for one in pool._shelves}


async def test_a_pool_grows_with_demand_to_its_maximum_and_shrinks_to_its_minimum(
    clock: Clock,
) -> None:
    engine = SlowEngine(0.02)
    async with PooledEngine(engine, SPEC, size=1, max_size=4, max_age_seconds=1e6) as pool:
        await full(pool)
        await used(pool, SPEC, 400)
        await waiting(pool, 4)
        clock.ahead = 1_000
        await waiting(pool, 1)
    assert engine.open_sandboxes == {}


async def test_a_pool_without_a_maximum_does_not_grow(engine: SlowEngine) -> None:
    async with PooledEngine(engine, SPEC, size=1) as pool:
        await used(pool, SPEC, 300)
        await full(pool)
        await asyncio.sleep(0.2)
        assert pool.idle == 1


OTHER = SandboxSpec(needs=frozenset(), limits=SandboxLimits(pids=8))


async def test_another_kind_that_is_asked_for_often_is_started_ahead_too(
    clock: Clock,
) -> None:
    engine = SlowEngine(0.02)
    async with PooledEngine(engine, SPEC, size=1, max_size=3, max_age_seconds=1e6) as pool:
        await full(pool)
        await used(pool, OTHER, 400)
        await waiting(pool, 3)
        started = engine.attempts
        async with pool.open(replace(OTHER, tenant="one")) as sandbox:
            assert engine.attempts == started
            assert sandbox.id not in {box.sandbox.id for box in pool._main.ready}
        clock.ahead = 1_000
        await waiting(pool, 1)
    assert engine.open_sandboxes == {}


async def test_one_caller_of_another_kind_starts_nothing_ahead(engine: SlowEngine, clock: Clock) -> None:
    async with PooledEngine(engine, SPEC, size=1, max_size=3) as pool:
        await full(pool)
        await used(pool, OTHER, 1)
        await pool.settled()
        await asyncio.sleep(0.2)
        assert [spec.limits.pids for spec in engine.asked].count(8) == 1


async def test_a_kind_takes_the_place_of_one_that_is_no_longer_asked_for(
    clock: Clock,
) -> None:
    engine = SlowEngine(0.02)
    async with PooledEngine(engine, SPEC, size=1, max_size=4, max_age_seconds=1e6) as pool:
        await used(pool, SPEC, 400)
        await waiting(pool, 4)
        clock.ahead = 30
        await used(pool, OTHER, 400)
        await waiting(pool, 4)
        await until(lambda: kinds(pool) == {SPEC.limits.pids: 1, 8: 3})


async def test_kinds_are_forgotten_least_lately_asked_first(engine: SlowEngine) -> None:
    async with PooledEngine(engine, SPEC, size=1, max_size=8) as pool:
        await full(pool)
        for pids in range(10, 60):
            await used(pool, replace(OTHER, limits=SandboxLimits(pids=pids)), 3)
        assert len(pool._shelves) == pool_module.MAX_KINDS
        assert pool._main in pool._shelves
    assert engine.open_sandboxes == {}


async def test_a_kind_that_cannot_be_had_does_not_hold_up_the_pools_own(engine: SlowEngine) -> None:
    async with PooledEngine(engine, SPEC, size=1, max_size=4) as pool:
        await full(pool)
        for _ in range(200):
            engine.error = EngineError("none of these")
            with suppress(EngineError):
                async with pool.open(OTHER):
                    pass
            engine.error = None
        await used(pool, SPEC, 1)
        await full(pool)
        assert pool.idle >= 1
