from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_skills.daemon.dispatch.base import Accepted, Node, QueueFull
from sandbox_skills.daemon.dispatch.options import QueueOptions
from sandbox_skills.daemon.errors import (
    EventsLostError,
    IdempotencyError,
    LeaseLostError,
    RunNotFoundError,
    SessionNotFoundError,
    TenantNotFoundError,
)
from sandbox_skills.daemon.truth.run import (
    Finished,
    IdempotencyKey,
    NewEvent,
    NewRun,
    Run,
    RunState,
    SkillRef,
    restarted,
)
from tests.contract.dispatches import OPENERS, Dispatch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from sandbox_skills.daemon.dispatch.base import Lease

pytestmark = pytest.mark.anyio

NODE = Node("node-1", slots=8, capabilities=frozenset({"docker"}))
OTHER = Node("node-2", slots=8, capabilities=frozenset({"docker", "bubblewrap"}))
DONE = Finished({"type": "exited", "code": 0}, {"stdout": "hello"}, ("stdout",))
LONG_ENOUGH = 10.0
"""Of a wait that a test ends; nothing ever takes so long."""


@pytest.fixture(params=sorted(OPENERS))
async def dispatch(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Dispatch]:
    options = QueueOptions(max_queued=20, lease_seconds=60.0, max_event_bytes=2000)
    async with OPENERS[request.param](tmp_path, options) as opened:
        yield opened


@pytest.fixture
async def tenant(dispatch: Dispatch) -> str:
    return await dispatch.new_tenant("acme", concurrency=8, queue=10)


def run(tenant: str, **changes: object) -> NewRun:
    return replace(NewRun(tenant, {"command": "echo"}, SkillRef("echo", "1", "sha")), **changes)  # type: ignore[arg-type]


async def queued(dispatch: Dispatch, tenant: str, **changes: object) -> Run:
    accepted = await dispatch.queue.submit(run(tenant, **changes))
    assert isinstance(accepted, Accepted)
    return accepted.run


async def claimed(dispatch: Dispatch, node: Node = NODE, slots: int = 8) -> list[str]:
    return [lease.run.id for lease in await dispatch.queue.claim(node, slots=slots)]


async def asleep(dispatch: Dispatch, slots: int, node: Node = NODE) -> asyncio.Future[Sequence[Lease]]:
    """Returns the wait of a node that has looked, and found nothing."""
    waiting = asyncio.ensure_future(dispatch.queue.claim(node, slots=slots, wait_seconds=LONG_ENOUGH))
    await asyncio.sleep(0.02)
    return waiting


async def passed(steps: int) -> None:
    """Lets the loop go round so many times, and the rest of the process work meanwhile."""
    for _ in range(steps):
        await asyncio.sleep(0.0005)


async def leased(dispatch: Dispatch, tenant: str) -> Lease:
    await queued(dispatch, tenant)
    (lease,) = await dispatch.queue.claim(NODE, slots=1)
    return lease


async def kinds(dispatch: Dispatch, run_id: str) -> list[str]:
    return [event.kind for event in await dispatch.events.read(run_id)]


class TestSubmit:
    async def test_an_accepted_run_waits_with_all_that_was_said_of_it(
        self, dispatch: Dispatch, tenant: str
    ) -> None:
        kept = await queued(dispatch, tenant, needs=frozenset({"docker"}))
        assert (kept.state, kept.attempt, kept.tenant_id) == (RunState.QUEUED, 0, tenant)
        assert (kept.request, kept.skill) == ({"command": "echo"}, SkillRef("echo", "1", "sha"))
        assert (kept.needs, kept.created_at) == (frozenset({"docker"}), dispatch.clock.now)
        assert await kinds(dispatch, kept.id) == ["queued"]

    async def test_the_same_key_and_body_are_the_same_run(self, dispatch: Dispatch, tenant: str) -> None:
        key = IdempotencyKey("k", "body")
        first = await dispatch.queue.submit(run(tenant, idempotency=key))
        again = await dispatch.queue.submit(run(tenant, idempotency=key))
        assert isinstance(first, Accepted)
        assert isinstance(again, Accepted)
        assert (first.replayed, again.replayed) == (False, True)
        assert first.run.id == again.run.id
        assert await claimed(dispatch) == [first.run.id]

    async def test_the_same_key_at_once_is_one_run(self, dispatch: Dispatch, tenant: str) -> None:
        new = run(tenant, idempotency=IdempotencyKey("k", "body"))
        results = await asyncio.gather(*(dispatch.queue.submit(new) for _ in range(5)))
        assert len({one.run.id for one in results if isinstance(one, Accepted)}) == 1

    async def test_the_same_key_with_another_body_is_refused(self, dispatch: Dispatch, tenant: str) -> None:
        await queued(dispatch, tenant, idempotency=IdempotencyKey("k", "body"))
        with pytest.raises(IdempotencyError):
            await dispatch.queue.submit(run(tenant, idempotency=IdempotencyKey("k", "other")))

    async def test_a_key_is_the_tenants_own(self, dispatch: Dispatch, tenant: str) -> None:
        other = await dispatch.new_tenant("other")
        mine = await queued(dispatch, tenant, idempotency=IdempotencyKey("k", "body"))
        theirs = await queued(dispatch, other, idempotency=IdempotencyKey("k", "other"))
        assert mine.id != theirs.id

    async def test_a_key_is_forgotten_when_its_time_is_over(self, dispatch: Dispatch, tenant: str) -> None:
        first = await queued(dispatch, tenant, idempotency=IdempotencyKey("k", "body", 10.0))
        dispatch.clock.now += 10.0
        again = await queued(dispatch, tenant, idempotency=IdempotencyKey("k", "other", 10.0))
        assert first.id != again.id

    async def test_a_tenants_queue_has_its_own_limit(self, dispatch: Dispatch, tenant: str) -> None:
        other = await dispatch.new_tenant("other")
        for _ in range(10):
            await queued(dispatch, tenant)
        full = await dispatch.queue.submit(run(tenant))
        assert isinstance(full, QueueFull)
        assert (full.scope, full.limit) == ("tenant", 10)
        assert full.retry_after > 0
        await queued(dispatch, other)
        assert (await dispatch.queue.depth()).queued == 11

    async def test_the_servers_queue_has_a_limit(self, dispatch: Dispatch, tenant: str) -> None:
        other = await dispatch.new_tenant("other")
        for name in (tenant, other):
            for _ in range(10):
                await queued(dispatch, name)
        full = await dispatch.queue.submit(run(await dispatch.new_tenant("third")))
        assert isinstance(full, QueueFull)
        assert (full.scope, full.limit) == ("server", 20)

    async def test_a_tenant_that_is_none_queues_nothing(self, dispatch: Dispatch) -> None:
        with pytest.raises(TenantNotFoundError):
            await dispatch.queue.submit(run("nobody"))
        assert (await dispatch.queue.depth()).queued == 0


class TestClaim:
    async def test_a_run_is_given_to_one_node_only(self, dispatch: Dispatch, tenant: str) -> None:
        one = await queued(dispatch, tenant)
        both = await asyncio.gather(claimed(dispatch), claimed(dispatch, OTHER))
        assert sorted(both) == [[], [one.id]]

    async def test_a_lease_says_whose_turn_it_is(self, dispatch: Dispatch, tenant: str) -> None:
        lease = await leased(dispatch, tenant)
        assert (lease.attempt, lease.until) == (1, dispatch.clock.now + 60.0)
        assert (lease.run.state, lease.run.node) == (RunState.RUNNING, NODE.id)
        assert lease.run.started_at == dispatch.clock.now
        assert await kinds(dispatch, lease.run.id) == ["queued", "started"]

    async def test_the_oldest_is_first(self, dispatch: Dispatch, tenant: str) -> None:
        runs = [(await queued(dispatch, tenant)).id for _ in range(3)]
        assert await claimed(dispatch, slots=2) == runs[:2]
        assert await claimed(dispatch, slots=2) == runs[2:]

    async def test_tenants_take_turns(self, dispatch: Dispatch, tenant: str) -> None:
        many = [(await queued(dispatch, tenant)).id for _ in range(5)]
        other = await dispatch.new_tenant("other")
        one = (await queued(dispatch, other)).id
        assert await claimed(dispatch, slots=1) == [many[0]]
        assert await claimed(dispatch, slots=1) == [one]
        later = [(await queued(dispatch, other)).id for _ in range(2)]
        assert await claimed(dispatch, slots=4) == [many[1], later[0], many[2], later[1]]

    async def test_a_tenant_gets_no_more_than_its_concurrency(self, dispatch: Dispatch) -> None:
        narrow = await dispatch.new_tenant("narrow", concurrency=2)
        for _ in range(4):
            await queued(dispatch, narrow)
        leases = await dispatch.queue.claim(NODE, slots=8)
        assert len(leases) == 2
        assert await claimed(dispatch) == []
        await leases[0].complete(DONE)
        assert len(await claimed(dispatch)) == 1

    async def test_a_node_gets_only_what_it_can_do(self, dispatch: Dispatch, tenant: str) -> None:
        special = await queued(dispatch, tenant, needs=frozenset({"bubblewrap", "docker"}))
        assert await claimed(dispatch) == []
        plain = await queued(dispatch, tenant)
        assert await claimed(dispatch) == [plain.id]
        assert await claimed(dispatch, OTHER) == [special.id]

    async def test_runs_of_a_session_go_one_by_one_and_hold_up_nobody(
        self, dispatch: Dispatch, tenant: str
    ) -> None:
        session = await dispatch.new_session(tenant)
        first = await queued(dispatch, tenant, session_id=session)
        second = await queued(dispatch, tenant, session_id=session)
        free = await queued(dispatch, tenant)
        leases = await dispatch.queue.claim(NODE, slots=8)
        assert [lease.run.id for lease in leases] == [first.id, free.id]
        await leases[0].complete(DONE)
        assert await claimed(dispatch) == [second.id]

    async def test_a_session_stays_on_the_node_that_holds_it(self, dispatch: Dispatch, tenant: str) -> None:
        session = await dispatch.new_session(tenant)
        assert await dispatch.nodes.place(session, OTHER.id) == OTHER.id
        mine = await queued(dispatch, tenant, session_id=session)
        assert await claimed(dispatch) == []
        assert await claimed(dispatch, OTHER) == [mine.id]

    async def test_a_draining_node_gets_nothing(self, dispatch: Dispatch, tenant: str) -> None:
        await dispatch.nodes.heartbeat(NODE)
        await dispatch.nodes.drain(NODE.id)
        mine = await queued(dispatch, tenant)
        assert await claimed(dispatch) == []
        assert await claimed(dispatch, OTHER) == [mine.id]

    async def test_no_slots_are_no_runs(self, dispatch: Dispatch, tenant: str) -> None:
        await queued(dispatch, tenant)
        assert await claimed(dispatch, slots=0) == []

    async def test_one_who_waits_gets_the_next_run(self, dispatch: Dispatch, tenant: str) -> None:
        waiting = asyncio.ensure_future(dispatch.queue.claim(NODE, slots=1, wait_seconds=LONG_ENOUGH))
        await asyncio.sleep(0)
        mine = await queued(dispatch, tenant)
        assert [lease.run.id for lease in await waiting] == [mine.id]

    async def test_one_who_waits_gets_what_an_end_makes_room_for(self, dispatch: Dispatch) -> None:
        narrow = await dispatch.new_tenant("narrow", concurrency=1)
        first, second = await queued(dispatch, narrow), await queued(dispatch, narrow)
        (lease,) = await dispatch.queue.claim(NODE, slots=8)
        waiting = asyncio.ensure_future(dispatch.queue.claim(NODE, slots=7, wait_seconds=LONG_ENOUGH))
        await asyncio.sleep(0.01)
        assert lease.run.id == first.id
        await lease.complete(DONE)
        assert [one.run.id for one in await waiting] == [second.id]

    async def test_one_who_waits_gets_what_came_between(self, dispatch: Dispatch, tenant: str) -> None:
        assert await claimed(dispatch) == []
        mine = await queued(dispatch, tenant)
        leases = await dispatch.queue.claim(NODE, slots=1, wait_seconds=LONG_ENOUGH)
        assert [lease.run.id for lease in leases] == [mine.id]

    async def test_one_who_waits_gets_what_was_given_back(self, dispatch: Dispatch, tenant: str) -> None:
        lease = await leased(dispatch, tenant)
        waiting = asyncio.ensure_future(dispatch.queue.claim(OTHER, slots=1, wait_seconds=LONG_ENOUGH))
        await asyncio.sleep(0.01)
        await lease.release()
        assert [one.run.id for one in await waiting] == [lease.run.id]

    async def test_a_cancelled_look_leaves_a_run_to_the_next(self, dispatch: Dispatch, tenant: str) -> None:
        for steps in range(6):
            looking = asyncio.ensure_future(dispatch.queue.claim(NODE, slots=1))
            for _ in range(steps):
                await asyncio.sleep(0)
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
        mine = await queued(dispatch, tenant)
        leases = await dispatch.queue.claim(NODE, slots=1, wait_seconds=LONG_ENOUGH)
        assert [lease.run.id for lease in leases] == [mine.id]

    async def test_a_wait_ends_without_a_run(self, dispatch: Dispatch) -> None:
        assert await dispatch.queue.claim(NODE, slots=1, wait_seconds=0.01) == ()

    async def test_a_cancelled_wait_takes_nothing(self, dispatch: Dispatch, tenant: str) -> None:
        waiting = asyncio.ensure_future(dispatch.queue.claim(NODE, slots=1, wait_seconds=LONG_ENOUGH))
        await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        mine = await queued(dispatch, tenant)
        assert await claimed(dispatch) == [mine.id]

    async def test_one_who_sleeps_gets_each_run_once(self, dispatch: Dispatch, tenant: str) -> None:
        for slots in (1, 8):
            waiting = await asleep(dispatch, slots)
            mine = await queued(dispatch, tenant, needs=frozenset({"docker"}))
            assert [lease.run.id for lease in await waiting] == [mine.id]
            assert await kinds(dispatch, mine.id) == ["queued", "started"]
            assert await claimed(dispatch) == []

    async def test_one_who_sleeps_gets_no_run_out_of_turn(self, dispatch: Dispatch, tenant: str) -> None:
        narrow = await dispatch.new_tenant("narrow", concurrency=1)
        going, waits = await queued(dispatch, narrow), await queued(dispatch, narrow)
        assert await claimed(dispatch) == [going.id]
        waiting = await asleep(dispatch, slots=1)
        later = await queued(dispatch, narrow)
        await queued(dispatch, tenant, needs=frozenset({"bubblewrap"}))
        mine = await queued(dispatch, tenant)
        assert [lease.run.id for lease in await waiting] == [mine.id]
        queue = await dispatch.queue.depth()
        assert (queue.queued_of[narrow], waits.id < later.id) == (2, True)

    async def test_runs_that_come_together_all_go(self, dispatch: Dispatch, tenant: str) -> None:
        waiting = await asleep(dispatch, slots=1)
        runs = await asyncio.gather(*(queued(dispatch, tenant) for _ in range(3)))
        found = [lease.run.id for lease in await waiting]
        while len(found) < len(runs):
            more = await dispatch.queue.claim(NODE, slots=1, wait_seconds=LONG_ENOUGH)
            found += [lease.run.id for lease in more]
        assert sorted(found) == sorted(run.id for run in runs)

    @pytest.mark.parametrize("steps", range(12))
    async def test_a_sleeper_that_is_cancelled_as_a_run_comes_takes_it_or_leaves_it(
        self, dispatch: Dispatch, tenant: str, steps: int
    ) -> None:
        waiting = await asleep(dispatch, slots=8)
        coming = asyncio.ensure_future(queued(dispatch, tenant))
        await passed(steps)
        waiting.cancel()
        (got,) = await asyncio.gather(waiting, return_exceptions=True)
        mine = (await coming).id
        left = await claimed(dispatch)
        assert left == [mine] if isinstance(got, BaseException) else (left, len(got)) == ([], 1)

    @pytest.mark.parametrize("steps", range(12))
    async def test_a_run_whose_asker_is_gone_goes_or_is_not_there(
        self, dispatch: Dispatch, tenant: str, steps: int
    ) -> None:
        waiting = await asleep(dispatch, slots=8)
        coming = asyncio.ensure_future(queued(dispatch, tenant))
        await passed(steps)
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
        other = await queued(dispatch, tenant)
        found = [lease.run.id for lease in await waiting]
        found += await claimed(dispatch)
        assert other.id in found
        assert (await dispatch.queue.depth()).queued == 0


class TestLease:
    async def test_an_outcome_is_written_with_its_last_event(self, dispatch: Dispatch, tenant: str) -> None:
        lease = await leased(dispatch, tenant)
        dispatch.clock.now += 1
        done = await lease.complete(DONE)
        assert (done.state, done.outcome, done.result) == (RunState.FINISHED, DONE.outcome, DONE.result)
        assert (done.limits_hit, done.finished_at) == (("stdout",), dispatch.clock.now)
        last = (await dispatch.events.read(done.id))[-1]
        assert (last.kind, last.data) == ("finished", {"outcome": DONE.outcome, "limits_hit": ["stdout"]})
        assert last.seq == done.event_last

    async def test_the_last_events_come_with_the_outcome(self, dispatch: Dispatch, tenant: str) -> None:
        lease = await leased(dispatch, tenant)
        done = await lease.complete(DONE, events=[NewEvent("output", {"text": text}) for text in "ab"])
        events = await dispatch.events.read(done.id, after=2)
        assert [(event.seq, event.kind) for event in events] == [
            (3, "output"),
            (4, "output"),
            (5, "finished"),
        ]
        assert done.event_last == 5

    async def test_there_is_room_for_the_last_events(self, dispatch: Dispatch, tenant: str) -> None:
        lease = await leased(dispatch, tenant)
        done = await lease.complete(DONE, events=[NewEvent("output", {"text": "x" * 1500})] * 2)
        assert [event.kind for event in await dispatch.events.read(done.id, after=done.event_last - 1)] == [
            "finished"
        ]
        with pytest.raises(EventsLostError):
            await dispatch.events.read(done.id)

    async def test_what_is_told_of_an_end_is_what_is_kept(self, dispatch: Dispatch, tenant: str) -> None:
        lease = await leased(dispatch, tenant)
        await dispatch.queue.cancel(lease.run.id, tenant_id=tenant)
        done = await lease.complete(DONE)
        assert await dispatch.queue.cancel(lease.run.id, tenant_id=tenant) == done

    async def test_an_outcome_is_written_once(self, dispatch: Dispatch, tenant: str) -> None:
        lease = await leased(dispatch, tenant)
        await lease.complete(DONE)
        for late in (
            lease.complete(restarted()),
            lease.append([NewEvent("output")]),
            lease.renew(),
            lease.release(),
        ):
            with pytest.raises(LeaseLostError):
                await late
        assert await kinds(dispatch, lease.run.id) == ["queued", "started", "finished"]

    async def test_only_the_attempt_that_holds_the_run_writes(self, dispatch: Dispatch, tenant: str) -> None:
        old = await leased(dispatch, tenant)
        await old.release()
        (new,) = await dispatch.queue.claim(OTHER, slots=1)
        assert (new.run.id, new.attempt) == (old.run.id, 2)
        for late in (
            old.complete(restarted()),
            old.append([NewEvent("output")]),
            old.renew(),
            old.release(),
        ):
            with pytest.raises(LeaseLostError):
                await late
        done = await new.complete(DONE)
        assert done.outcome == DONE.outcome
        assert await kinds(dispatch, done.id) == ["queued", "started", "released", "started", "finished"]

    async def test_of_two_outcomes_at_once_one_is_written(self, dispatch: Dispatch, tenant: str) -> None:
        lease = await leased(dispatch, tenant)
        results = await asyncio.gather(
            lease.complete(DONE), lease.complete(restarted()), return_exceptions=True
        )
        assert sum(isinstance(one, LeaseLostError) for one in results) == 1
        assert (await kinds(dispatch, lease.run.id)).count("finished") == 1

    async def test_a_released_run_has_its_old_place(self, dispatch: Dispatch, tenant: str) -> None:
        lease = await leased(dispatch, tenant)
        later = await queued(dispatch, tenant)
        await lease.release()
        assert await claimed(dispatch) == [lease.run.id, later.id]

    async def test_a_renewed_lease_lasts_longer(self, dispatch: Dispatch, tenant: str) -> None:
        lease = await leased(dispatch, tenant)
        dispatch.clock.now += 50
        assert await lease.renew() is False
        assert lease.until == dispatch.clock.now + 60
        dispatch.clock.now += 50
        assert await dispatch.queue.expire(restarted()) == []

    async def test_an_expired_lease_ends_the_run_and_never_starts_it_again(
        self, dispatch: Dispatch, tenant: str
    ) -> None:
        lease = await leased(dispatch, tenant)
        dispatch.clock.now += 61
        (lost,) = await dispatch.queue.expire(restarted())
        assert (lost.id, lost.outcome) == (lease.run.id, restarted().outcome)
        assert await claimed(dispatch) == []
        with pytest.raises(LeaseLostError):
            await lease.complete(DONE)


class TestCancel:
    async def test_a_queued_run_is_over_at_once(self, dispatch: Dispatch, tenant: str) -> None:
        mine = await queued(dispatch, tenant)
        done = await dispatch.queue.cancel(mine.id, tenant_id=tenant)
        assert (done.state, done.outcome) == (
            RunState.FINISHED,
            {"type": "stopped", "reason": "cancelled"},
        )
        assert await claimed(dispatch) == []
        assert await kinds(dispatch, mine.id) == ["queued", "cancel_requested", "finished"]

    async def test_a_running_one_is_told_to_its_node(self, dispatch: Dispatch, tenant: str) -> None:
        lease = await leased(dispatch, tenant)
        waiting = asyncio.ensure_future(dispatch.queue.cancels(NODE.id, wait_seconds=LONG_ENOUGH))
        await asyncio.sleep(0)
        asked = await dispatch.queue.cancel(lease.run.id, tenant_id=tenant)
        assert (asked.state, asked.cancel_requested_at) == (RunState.RUNNING, dispatch.clock.now)
        assert await waiting == {lease.run.id}
        assert await lease.renew() is True
        known = frozenset({lease.run.id})
        assert await dispatch.queue.cancels(NODE.id, known=known) == frozenset()
        assert await dispatch.queue.cancels(OTHER.id) == frozenset()
        await lease.complete(Finished({"type": "stopped", "reason": "cancelled"}))
        assert await dispatch.queue.cancels(NODE.id) == frozenset()

    async def test_a_finished_one_stays_as_it_is(self, dispatch: Dispatch, tenant: str) -> None:
        lease = await leased(dispatch, tenant)
        done = await lease.complete(DONE)
        assert await dispatch.queue.cancel(done.id, tenant_id=tenant) == done

    async def test_asking_twice_is_asking_once(self, dispatch: Dispatch, tenant: str) -> None:
        lease = await leased(dispatch, tenant)
        await dispatch.queue.cancel(lease.run.id, tenant_id=tenant)
        await dispatch.queue.cancel(lease.run.id, tenant_id=tenant)
        assert await kinds(dispatch, lease.run.id) == ["queued", "started", "cancel_requested"]

    async def test_another_tenants_run_is_not_there(self, dispatch: Dispatch, tenant: str) -> None:
        other = await dispatch.new_tenant("other")
        mine = await queued(dispatch, tenant)
        for run_id in (mine.id, "nothing"):
            with pytest.raises(RunNotFoundError):
                await dispatch.queue.cancel(run_id, tenant_id=other)
        assert await claimed(dispatch) == [mine.id]


class TestAbandon:
    async def test_runs_of_dead_nodes_end_and_others_go_on(self, dispatch: Dispatch, tenant: str) -> None:
        dead = await leased(dispatch, tenant)
        await queued(dispatch, tenant)
        (alive,) = await dispatch.queue.claim(OTHER, slots=1)
        waits = await queued(dispatch, tenant)
        (lost,) = await dispatch.queue.abandon(restarted(), nodes=frozenset({NODE.id}))
        assert (lost.id, lost.state) == (dead.run.id, RunState.FINISHED)
        assert lost.outcome is not None
        assert (lost.outcome["type"], lost.outcome["reason"]) == ("sandbox_error", "restarted")
        with pytest.raises(LeaseLostError):
            await dead.complete(DONE)
        await alive.complete(DONE)
        assert await claimed(dispatch) == [waits.id]

    async def test_all_of_them_end_when_no_node_is_named(self, dispatch: Dispatch, tenant: str) -> None:
        lease = await leased(dispatch, tenant)
        assert [one.id for one in await dispatch.queue.abandon(restarted())] == [lease.run.id]
        assert await dispatch.queue.abandon(restarted()) == []


class TestEvents:
    async def test_they_are_numbered_without_a_hole(self, dispatch: Dispatch, tenant: str) -> None:
        lease = await leased(dispatch, tenant)
        assert await lease.append([NewEvent("output", {"text": "a"}), NewEvent("output", {"text": "b"})]) == 4
        events = await dispatch.events.read(lease.run.id, after=2)
        assert [(event.seq, event.kind, event.data) for event in events] == [
            (3, "output", {"text": "a"}),
            (4, "output", {"text": "b"}),
        ]
        assert {event.at for event in events} == {dispatch.clock.now}

    async def test_a_read_has_a_limit(self, dispatch: Dispatch, tenant: str) -> None:
        lease = await leased(dispatch, tenant)
        await lease.append([NewEvent("output", {"n": number}) for number in range(10)])
        assert [event.seq for event in await dispatch.events.read(lease.run.id, after=3, limit=2)] == [4, 5]

    async def test_the_oldest_go_when_there_is_too_much(self, dispatch: Dispatch, tenant: str) -> None:
        lease = await leased(dispatch, tenant)
        for number in range(50):
            await lease.append([NewEvent("output", {"text": f"{number:0100}"})])
        with pytest.raises(EventsLostError) as caught:
            await dispatch.events.read(lease.run.id)
        assert caught.value.last == 52
        kept = await dispatch.events.read(lease.run.id, after=caught.value.first - 1)
        assert [event.seq for event in kept] == list(range(caught.value.first, 53))
        assert 10 <= len(kept) <= 20

    async def test_the_newest_stays_whatever_its_size(self, dispatch: Dispatch, tenant: str) -> None:
        lease = await leased(dispatch, tenant)
        last = await lease.append([NewEvent("output", {"text": "x" * 5000})])
        assert [event.seq for event in await dispatch.events.read(lease.run.id, after=last - 1)] == [last]

    async def test_a_number_that_was_never_given_is_told(self, dispatch: Dispatch, tenant: str) -> None:
        mine = await queued(dispatch, tenant)
        with pytest.raises(EventsLostError):
            await dispatch.events.read(mine.id, after=7)

    async def test_no_run_has_no_events(self, dispatch: Dispatch) -> None:
        with pytest.raises(RunNotFoundError):
            await dispatch.events.read("nothing")
        with pytest.raises(RunNotFoundError):
            await anext(dispatch.events.follow("nothing"))

    async def test_who_follows_gets_each_once_and_ends_with_the_run(
        self, dispatch: Dispatch, tenant: str
    ) -> None:
        async def all_of(run_id: str) -> list[int]:
            return [event.seq async for event in dispatch.events.follow(run_id)]

        mine = await queued(dispatch, tenant)
        readers = [asyncio.ensure_future(all_of(mine.id)) for _ in range(3)]
        (lease,) = await dispatch.queue.claim(NODE, slots=1)
        for number in range(5):
            await lease.append([NewEvent("output", {"n": number})])
        await lease.complete(DONE)
        assert await asyncio.gather(*readers) == [list(range(1, 9))] * 3

    async def test_following_goes_on_where_it_was(self, dispatch: Dispatch, tenant: str) -> None:
        lease = await leased(dispatch, tenant)
        await lease.append([NewEvent("output")])
        async with aclosing(dispatch.events.follow(lease.run.id)) as events:
            assert (await anext(events)).seq == 1
        await lease.complete(DONE)
        assert [event.seq async for event in dispatch.events.follow(lease.run.id, after=2)] == [3, 4]
        assert [event.seq async for event in dispatch.events.follow(lease.run.id, after=4)] == []


class TestNodes:
    async def test_a_node_is_known_by_its_last_word(self, dispatch: Dispatch) -> None:
        await dispatch.nodes.heartbeat(NODE)
        dispatch.clock.now += 100
        await dispatch.nodes.heartbeat(OTHER)
        await dispatch.nodes.heartbeat(replace(OTHER, slots=3))
        both = await dispatch.nodes.nodes()
        assert [state.node for state in both] == [NODE, replace(OTHER, slots=3)]
        (alive,) = await dispatch.nodes.nodes(within_seconds=60)
        assert (alive.node.id, alive.heartbeat_at, alive.draining) == (OTHER.id, dispatch.clock.now, False)

    async def test_draining_is_told_and_a_heartbeat_does_not_end_it(self, dispatch: Dispatch) -> None:
        await dispatch.nodes.heartbeat(NODE)
        await dispatch.nodes.drain(NODE.id)
        await dispatch.nodes.heartbeat(NODE)
        assert [state.draining for state in await dispatch.nodes.nodes()] == [True]

    async def test_a_session_has_one_node_until_that_leaves(self, dispatch: Dispatch, tenant: str) -> None:
        session = await dispatch.new_session(tenant)
        await dispatch.nodes.heartbeat(NODE)
        assert await dispatch.nodes.place(session, NODE.id) == NODE.id
        assert await dispatch.nodes.place(session, OTHER.id) == NODE.id
        await dispatch.nodes.leave(NODE.id)
        assert await dispatch.nodes.nodes() == []
        assert await dispatch.nodes.place(session, OTHER.id) == OTHER.id

    async def test_no_session_has_no_place(self, dispatch: Dispatch) -> None:
        with pytest.raises(SessionNotFoundError):
            await dispatch.nodes.place("nothing", NODE.id)


async def test_every_value_can_be_sent_to_another_machine(dispatch: Dispatch, tenant: str) -> None:
    lease = await leased(dispatch, tenant)
    await dispatch.nodes.heartbeat(NODE)
    depth, nodes = await dispatch.queue.depth(), await dispatch.nodes.nodes()
    done = await lease.complete(DONE)
    events = await dispatch.events.read(done.id)
    values: tuple[Any, ...] = (
        NODE,
        run(tenant),
        lease.run,
        Accepted(done),
        depth,
        done,
        DONE,
        *nodes,
        *events,
    )
    for value in values:
        assert json.loads(json.dumps(asdict(value), default=sorted)), value
