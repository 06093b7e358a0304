"""The queue over the database of this process."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import func, select

from sandbox_skills.daemon.dispatch.base import Accepted, QueueDepth, QueueFull
from sandbox_skills.daemon.dispatch.bell import Bell, heard_within
from sandbox_skills.daemon.dispatch.claiming import claim
from sandbox_skills.daemon.dispatch.options import QueueOptions
from sandbox_skills.daemon.dispatch.submitting import submit
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
)
from sandbox_skills.daemon.truth.runs import finish, found, run_of, step, trim
from sandbox_skills.daemon.truth.tables import RunRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import ColumnElement
    from sqlalchemy.orm import Session

    from sandbox_skills.daemon.dispatch.base import Lease, Node
    from sandbox_skills.daemon.truth.database import Database
    from sandbox_skills.daemon.truth.run import Finished, NewRun

WORK = "work"
"""The bell that is rung when a run may have become claimable; those of runs and nodes have their ids in it."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """What the parts of one queue share."""

    database: Database
    options: QueueOptions
    bell: Bell


class SqlRunQueue:
    """A RunQueue. `bell` is shared with the event log of the same process."""

    def __init__(self, database: Database, bell: Bell, options: QueueOptions | None = None) -> None:
        self._database = database
        self._bell = bell
        self._options = options or QueueOptions()
        self._wiring = Wiring(database, self._options, bell)

    async def submit(self, run: NewRun) -> Accepted | QueueFull:
        now = self._database.clock()
        result = await self._database.write(
            Change.RUN_SUBMIT, lambda session: submit(session, run, self._options, now=now)
        )
        self._bell.ring(WORK)
        return result

    async def claim(self, node: Node, *, slots: int, wait_seconds: float = 0.0) -> Sequence[Lease]:
        until = time.monotonic() + wait_seconds
        with self._bell.listening(WORK) as heard:
            while True:
                if leases := await self._claim(node, slots):
                    return leases
                left = until - time.monotonic()
                if left <= 0 or not await heard_within(heard, left):
                    return ()

    async def _claim(self, node: Node, slots: int) -> Sequence[Lease]:
        now = self._database.clock()
        work = partial(claim, node=node, options=self._options, slots=slots, now=now)
        runs = await self._database.write(Change.RUN_CLAIM, work)
        for run in runs:
            self._bell.ring(run_bell(run.id))
        return [SqlLease(self._wiring, run, now + self._options.lease_seconds) for run in runs]

    async def cancel(self, run_id: str, *, tenant_id: str, actor: str = "") -> Run:
        now = self._database.clock()
        run = await self._database.write(
            Change.RUN_CANCEL, lambda session: _cancel(session, run_id, tenant_id, actor, now=now)
        )
        self._bell.ring(run_bell(run_id))
        if run.node is not None:
            self._bell.ring(node_bell(run.node))
        return run

    async def cancels(
        self, node_id: str, *, known: frozenset[str] = frozenset(), wait_seconds: float = 0.0
    ) -> frozenset[str]:
        query = select(RunRow.id).where(
            RunRow.state == RunState.RUNNING,
            RunRow.node == node_id,
            RunRow.cancel_requested_at.is_not(None),
        )
        until = time.monotonic() + wait_seconds
        with self._bell.listening(node_bell(node_id)) as heard:
            while True:
                asked = await self._database.read(lambda session: frozenset(session.scalars(query)))
                left = until - time.monotonic()
                if asked - known or left <= 0 or not await heard_within(heard, left):
                    return asked - known

    async def abandon(self, finished: Finished, *, nodes: frozenset[str] | None = None) -> Sequence[Run]:
        where = () if nodes is None else (RunRow.node.in_(nodes),)
        return await self._abandon(finished, *where)

    async def expire(self, finished: Finished) -> Sequence[Run]:
        return await self._abandon(finished, RunRow.lease_until < self._database.clock())

    async def _abandon(self, finished: Finished, *where: ColumnElement[bool]) -> Sequence[Run]:
        now = self._database.clock()

        def end(session: Session) -> list[Run]:
            lost = session.scalars(select(RunRow.id).where(RunRow.state == RunState.RUNNING, *where)).all()
            rows = [finish(session, run_id, finished=finished, now=now) for run_id in lost]
            return [run_of(row) for row in rows if row is not None]

        runs = await self._database.write(Change.RUN_ABANDON, end)
        for run in runs:
            self._bell.ring(run_bell(run.id))
        self._bell.ring(WORK)
        return runs

    async def depth(self) -> QueueDepth:
        query = (
            select(RunRow.state, RunRow.tenant_id, func.count())
            .where(RunRow.state.in_([RunState.QUEUED, RunState.RUNNING]))
            .group_by(RunRow.state, RunRow.tenant_id)
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
        row = await self._database.write(
            Change.RUN_RENEW,
            lambda session: self._held(
                step(session, self._run.id, *self._mine(), now=now, lease_until=until)
            ),
        )
        self._until = until
        return row.cancel_requested_at is not None

    async def append(self, events: Sequence[NewEvent]) -> int:
        now = self._database.clock()

        def add(session: Session) -> int:
            row = self._held(step(session, self._run.id, *self._mine(), events=events, now=now))
            trim(session, row.id, max_bytes=self._options.max_event_bytes)
            return row.event_last

        last = await self._database.write(Change.EVENT_APPEND, add)
        self._bell.ring(run_bell(self._run.id))
        return last

    async def complete(self, finished: Finished) -> Run:
        now = self._database.clock()

        def end(session: Session) -> Run:
            row = finish(session, self._run.id, *self._mine(), finished=finished, now=now)
            return run_of(self._held(row))

        run = await self._database.write(Change.RUN_COMPLETE, end)
        self._ring()
        return run

    async def release(self) -> None:
        now = self._database.clock()

        def give_back(session: Session) -> None:
            row = step(
                session,
                self._run.id,
                *self._mine(),
                events=[NewEvent(RELEASED)],
                now=now,
                state=RunState.QUEUED,
                node=None,
                started_at=None,
                lease_until=None,
            )
            self._held(row)

        await self._database.write(Change.RUN_RELEASE, give_back)
        self._ring()

    def _ring(self) -> None:
        self._bell.ring(run_bell(self._run.id))
        self._bell.ring(WORK)

    def _mine(self) -> Sequence[ColumnElement[bool]]:
        return (RunRow.state == RunState.RUNNING, RunRow.attempt == self._run.attempt)

    def _held(self, row: RunRow | None) -> RunRow:
        if row is None:
            raise LeaseLostError(f"attempt {self.attempt} does not hold run {self._run.id} any more")
        return row


def _cancel(session: Session, run_id: str, tenant_id: str, actor: str, *, now: float) -> Run:
    row = found(session, run_id, tenant_id)
    if row.state == RunState.FINISHED or row.cancel_requested_at is not None:
        return run_of(row)
    asked = NewEvent(CANCEL_REQUESTED)
    changed = step(session, run_id, events=[asked], now=now, cancel_requested_at=now)
    if row.state == RunState.QUEUED:
        changed = finish(session, run_id, finished=cancelled_while_queued(), now=now)
    audit.append(session, Deed(actor, "run.cancel", f"run:{run_id}", tenant_id), at=now)
    return run_of(changed if changed is not None else row)


def run_bell(run_id: str) -> str:
    """Returns the bell that is rung when something happened in a run."""
    return f"run {run_id}"


def node_bell(node_id: str) -> str:
    """Returns the bell that is rung when a node has a run to cancel."""
    return f"node {node_id}"
