"""The queue over the database of this process."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select

from sandbox_skills.daemon.dispatch.base import Accepted, QueueDepth, QueueFull
from sandbox_skills.daemon.dispatch.bell import Bell, heard_within, is_up_within
from sandbox_skills.daemon.dispatch.claiming import claim
from sandbox_skills.daemon.dispatch.options import QueueOptions
from sandbox_skills.daemon.dispatch.submitting import submit
from sandbox_skills.daemon.dispatch.work_bell import Offer, WorkBell
from sandbox_skills.daemon.errors import LeaseLostError
from sandbox_skills.daemon.truth import audit
from sandbox_skills.daemon.truth.audit import Deed
from sandbox_skills.daemon.truth.changes import Change
from sandbox_skills.daemon.truth.run import (
    CANCEL_REQUESTED,
    RELEASED,
    NewEvent,
    Run,
    RunState,
    cancelled_while_queued,
    is_brief,
)
from sandbox_skills.daemon.truth.runs import Standing, finish, found, run_of, step, trim
from sandbox_skills.daemon.truth.tables import RUN
from sandbox_skills.engines import cancellation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import ColumnElement, Connection, Row

    from sandbox_skills.daemon.dispatch.base import Lease, Node
    from sandbox_skills.daemon.truth.database import Database
    from sandbox_skills.daemon.truth.run import Finished, NewRun

    Written = tuple[Accepted | QueueFull, Sequence[Run]]
    """What came of a run that was to be queued, and what was claimed with it."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """What the parts of one queue share."""

    database: Database
    options: QueueOptions
    bell: Bell
    work: WorkBell


class SqlRunQueue:
    """A RunQueue. `bell` is shared with the event log of the same process."""

    def __init__(self, database: Database, bell: Bell, options: QueueOptions | None = None) -> None:
        self._database = database
        self._bell = bell
        self._options = options or QueueOptions()
        self._work = WorkBell()
        self._wiring = Wiring(database, self._options, bell, self._work)

    async def submit(self, run: NewRun) -> Accepted | QueueFull:
        now, offer = self._database.clock(), self._work.take(run.needs)
        change = Change.RUN_SUBMIT if offer is None else Change.RUN_SUBMIT_AND_CLAIM
        work = partial(_submit, new=run, offer=offer, options=self._options, now=now)
        writing = self._database.transact(change, work, brief=is_brief(run.request))
        # Whoever asked goes on before the node does, and the node gets its runs whoever is cancelled.
        if writing.done():
            self._submitted(run, offer, now, writing)
            return writing.result()[0]
        written = asyncio.shield(writing)
        writing.add_done_callback(partial(self._submitted, run, offer, now))
        return (await written)[0]

    def _submitted(
        self, run: NewRun, offer: Offer | None, now: float, writing: asyncio.Future[Written]
    ) -> None:
        """Gives what was claimed with a run to the node that offered to take it, or says that there is a run."""
        is_done = not writing.cancelled() and writing.exception() is None
        answer, claimed = writing.result() if is_done else (None, ())
        if offer is not None:
            self._work.give(offer, self._leases(claimed, now))
        if isinstance(answer, Accepted) and answer.run.id not in {one.id for one in claimed}:
            self._work.ring(run.needs)

    async def claim(self, node: Node, *, slots: int, wait_seconds: float = 0.0) -> Sequence[Lease]:
        until = time.monotonic() + wait_seconds
        changed = self._work.sign(node)
        while True:
            leases: Sequence[Lease] = ()
            if (left := until - time.monotonic()) > 0:
                leases = await self._offered(node, slots, left)
            leases = leases or await self._looked(node, slots, changed)
            if leases or time.monotonic() >= until:
                return tuple(leases)

    async def _offered(self, node: Node, slots: int, seconds: float) -> Sequence[Lease]:
        """Waits until there may be a run for the node; returns what was claimed for it meanwhile."""
        offer = Offer(node, slots)
        try:
            with self._work.offering(offer):
                await is_up_within(offer.woken, seconds)
            return await offer.leases()
        except asyncio.CancelledError:
            await cancellation.finish(_given_back(offer))
            raise

    async def _looked(self, node: Node, slots: int, changed: asyncio.Event) -> Sequence[Lease]:
        """Looks for runs; the sign is up again unless there were too few, as then no more can wait."""
        changed.clear()
        found_all = False
        try:
            leases = await self._claim(node, slots)
            found_all = len(leases) < slots
        finally:
            if not found_all:
                changed.set()
        return leases

    async def _claim(self, node: Node, slots: int) -> Sequence[Lease]:
        now = self._database.clock()
        work = partial(claim, node=node, options=self._options, slots=slots, now=now)
        return self._leases(await self._database.transact(Change.RUN_CLAIM, work), now)

    def _leases(self, runs: Sequence[Run], now: float) -> Sequence[Lease]:
        """Returns the leases of runs that were claimed just now, and tells whoever follows them."""
        for run in runs:
            self._bell.ring(run_bell(run.id))
        return [SqlLease(self._wiring, run, now + self._options.lease_seconds) for run in runs]

    async def cancel(self, run_id: str, *, tenant_id: str, actor: str = "") -> Run:
        now = self._database.clock()
        work = partial(_cancel, run_id=run_id, tenant_id=tenant_id, actor=actor, now=now)
        run = await self._database.transact(Change.RUN_CANCEL, work)
        self._bell.ring(run_bell(run_id))
        if run.node is not None:
            self._bell.ring(node_bell(run.node))
        return run

    async def cancels(
        self, node_id: str, *, known: frozenset[str] = frozenset(), wait_seconds: float = 0.0
    ) -> frozenset[str]:
        query = select(RUN.c.id).where(
            RUN.c.state == RunState.RUNNING,
            RUN.c.node == node_id,
            RUN.c.cancel_requested_at.is_not(None),
        )
        until = time.monotonic() + wait_seconds
        with self._bell.listening(node_bell(node_id)) as heard:
            while True:
                asked = await self._database.read(lambda session: frozenset(session.scalars(query)))
                left = until - time.monotonic()
                if asked - known or left <= 0 or not await heard_within(heard, left):
                    return asked - known

    async def abandon(self, finished: Finished, *, nodes: frozenset[str] | None = None) -> Sequence[Run]:
        where = () if nodes is None else (RUN.c.node.in_(nodes),)
        return await self._abandon(finished, *where)

    async def expire(self, finished: Finished) -> Sequence[Run]:
        return await self._abandon(finished, RUN.c.lease_until < self._database.clock())

    async def _abandon(self, finished: Finished, *where: ColumnElement[bool]) -> Sequence[Run]:
        now = self._database.clock()

        def end(connection: Connection) -> list[Run]:
            lost = connection.scalars(select(RUN.c.id).where(RUN.c.state == RunState.RUNNING, *where)).all()
            going = Standing(RunState.RUNNING)
            rows = [finish(connection, run_id, going, finished, now=now, whole=True) for run_id in lost]
            return [run_of(row) for row in rows if row is not None]

        runs = await self._database.transact(Change.RUN_ABANDON, end)
        for run in runs:
            self._bell.ring(run_bell(run.id))
        self._work.ring()
        return runs

    async def depth(self) -> QueueDepth:
        query = (
            select(RUN.c.state, RUN.c.tenant_id, func.count())
            .where(RUN.c.state.in_([RunState.QUEUED, RunState.RUNNING]))
            .group_by(RUN.c.state, RUN.c.tenant_id)
        )
        rows = await self._database.read(lambda session: session.execute(query).all())
        queued = Counter({tenant: count for state, tenant, count in rows if state == RunState.QUEUED})
        running = Counter({tenant: count for state, tenant, count in rows if state == RunState.RUNNING})
        return QueueDepth(queued.total(), running.total(), dict(queued), dict(running))


class SqlLease:
    """A Lease. What it says counts only while the run is this attempt's."""

    def __init__(self, wiring: Wiring, run: Run, until: float) -> None:
        self._database = wiring.database
        self._options = wiring.options
        self._bell = wiring.bell
        self._work = wiring.work
        self._until = until
        self._run = run

    @property
    def run(self) -> Run:
        return self._run

    @property
    def attempt(self) -> int:
        return self._run.attempt

    @property
    def until(self) -> float:
        return self._until

    async def renew(self) -> bool:
        now = self._database.clock()
        until = now + self._options.lease_seconds

        def longer(connection: Connection) -> bool:
            row = self._held(step(connection, self._run.id, self._mine(), {"lease_until": until}, now=now))
            return row.cancel_requested_at is not None

        is_cancelled = await self._database.transact(Change.RUN_RENEW, longer)
        self._until = until
        return is_cancelled

    async def append(self, events: Sequence[NewEvent]) -> int:
        now = self._database.clock()

        def add(connection: Connection) -> int:
            row = self._held(step(connection, self._run.id, self._mine(), {}, events=events, now=now))
            trim(connection, self._run.id, row, max_bytes=self._options.max_event_bytes)
            last: int = row.event_last
            return last

        last = await self._database.transact(Change.EVENT_APPEND, add)
        self._bell.ring(run_bell(self._run.id))
        return last

    async def complete(self, finished: Finished, *, events: Sequence[NewEvent] = ()) -> Run:
        now = self._database.clock()

        def end(connection: Connection) -> tuple[Run, bool]:
            row = self._held(finish(connection, self._run.id, self._mine(), finished, events=events, now=now))
            trim(connection, self._run.id, row, max_bytes=self._options.max_event_bytes)
            return _finished(self._run, finished, row, now=now), row.others_wait

        brief = is_brief(finished.result, *[event.data for event in events])
        run, others_wait = await self._database.transact(Change.RUN_COMPLETE, end, brief=brief)
        self._bell.ring(run_bell(self._run.id))
        if others_wait:
            self._work.ring()
        return run

    async def release(self) -> None:
        now = self._database.clock()
        given_back = {"state": RunState.QUEUED, "node": None, "started_at": None, "lease_until": None}

        def give_back(connection: Connection) -> None:
            released = [NewEvent(RELEASED)]
            self._held(step(connection, self._run.id, self._mine(), given_back, events=released, now=now))

        await self._database.transact(Change.RUN_RELEASE, give_back)
        self._bell.ring(run_bell(self._run.id))
        self._work.ring(self._run.needs)

    def _mine(self) -> Standing:
        return Standing(RunState.RUNNING, self._run.attempt)

    def _held(self, row: Row[Any] | None) -> Row[Any]:
        if row is None:
            raise LeaseLostError(f"attempt {self.attempt} does not hold run {self._run.id} any more")
        return row


def _finished(run: Run, finished: Finished, counters: Row[Any], *, now: float) -> Run:
    """Returns a run as it is once it is finished; read again it would be the same, a megabyte later."""
    return replace(
        run,
        state=RunState.FINISHED,
        outcome=finished.outcome,
        limits_hit=finished.limits_hit,
        result=finished.result,
        finished_at=now,
        cancel_requested_at=counters.cancel_requested_at,
        event_last=counters.event_last,
    )


def _submit(
    connection: Connection, new: NewRun, offer: Offer | None, options: QueueOptions, *, now: float
) -> Written:
    """Queues a run, and claims for a node that offers to take one: that run, if it is its turn."""
    answer = submit(connection, new, options, node=None if offer is None else offer.node, now=now)
    if offer is None or isinstance(answer, QueueFull) or answer.replayed:
        return answer, ()
    if answer.run.state is RunState.RUNNING:
        return answer, (answer.run,)
    return answer, claim(connection, offer.node, options, slots=offer.slots, now=now)


async def _given_back(offer: Offer) -> None:
    for lease in await offer.leases():
        await lease.release()


def _cancel(connection: Connection, run_id: str, tenant_id: str, actor: str, *, now: float) -> Run:
    run = found(connection, run_id, tenant_id)
    if run.state is RunState.FINISHED or run.cancel_requested_at is not None:
        return run
    asked, standing = [NewEvent(CANCEL_REQUESTED)], Standing(run.state)
    changed = step(
        connection, run_id, standing, {"cancel_requested_at": now}, events=asked, now=now, whole=True
    )
    if run.state is RunState.QUEUED:
        changed = finish(connection, run_id, standing, cancelled_while_queued(), now=now, whole=True)
    audit.append(connection, Deed(actor, "run.cancel", f"run:{run_id}", tenant_id), at=now)
    return run if changed is None else run_of(changed)


def run_bell(run_id: str) -> str:
    """Returns the bell that is rung when something happened in a run."""
    return f"run {run_id}"


def node_bell(node_id: str) -> str:
    """Returns the bell that is rung when a node has a run to cancel."""
    return f"node {node_id}"
