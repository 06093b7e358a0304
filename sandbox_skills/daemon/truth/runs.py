"""Runs as rows: how they are read, and the steps of their life as parts of a transaction.

A step that an attempt takes names that attempt, and finds nothing where another one has the run by now.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, insert, select, update

from sandbox_skills.daemon.errors import RunNotFoundError
from sandbox_skills.daemon.truth.run import (
    FINISHED,
    QUEUED,
    NewEvent,
    Run,
    RunEvent,
    RunKind,
    RunState,
    SkillRef,
)
from sandbox_skills.daemon.truth.tables import EventRow, RunRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import ColumnElement
    from sqlalchemy.orm import Session

    from sandbox_skills.daemon.truth.database import Database
    from sandbox_skills.daemon.truth.run import Finished, NewRun

TRIMMED_AT_ONCE = 1000
"""Events looked at to make room: more than one append brings."""


def run_of(row: RunRow) -> Run:
    """Returns a row as a value."""
    return Run(
        id=row.id,
        tenant_id=row.tenant_id,
        kind=RunKind(row.kind),
        session_id=row.session_id,
        skill=SkillRef(row.skill_name, row.skill_version, row.skill_digest, row.skill_source),
        state=RunState(row.state),
        request=row.request,
        needs=frozenset(row.needs.split()),
        attempt=row.attempt,
        node=row.node,
        outcome=row.outcome,
        limits_hit=tuple(row.limits_hit),
        result=row.result,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        cancel_requested_at=row.cancel_requested_at,
        event_last=row.event_last,
    )


def new_row(run_id: str, new: NewRun, *, now: float) -> RunRow:
    """Returns the row of a run that begins to wait."""
    return RunRow(
        id=run_id,
        tenant_id=new.tenant_id,
        session_id=new.session_id,
        kind=new.kind,
        skill_name=new.skill.name,
        skill_version=new.skill.version,
        skill_digest=new.skill.digest,
        skill_source=new.skill.source,
        state=RunState.QUEUED,
        request=dict(new.request),
        needs=" ".join(sorted(new.needs)),
        attempt=0,
        limits_hit=[],
        created_at=now,
        event_first=1,
        event_last=0,
        event_bytes=0,
    )


def found(session: Session, run_id: str, tenant_id: str | None = None) -> RunRow:
    """Returns a run's row, one of that tenant's if it is named; raises RunNotFoundError."""
    row = session.get(RunRow, run_id, with_for_update=True)
    if row is None or tenant_id not in {None, row.tenant_id}:
        raise RunNotFoundError(f"there is no run {run_id[:80]!r}")
    return row


def step(
    session: Session,
    run_id: str,
    *where: ColumnElement[bool],
    events: Sequence[NewEvent] = (),
    now: float,
    **values: Any,  # noqa: ANN401  # columns, each of its own type
) -> RunRow | None:
    """Changes a run and adds events to its log, if it is as `where` says; returns its row then, else None."""
    sizes = [len(json.dumps(event.data)) for event in events]
    changed = session.scalars(
        update(RunRow)
        .where(RunRow.id == run_id, *where)
        .values(
            event_last=RunRow.event_last + len(events),
            event_bytes=RunRow.event_bytes + sum(sizes),
            **values,
        )
        .returning(RunRow)
        .execution_options(populate_existing=True)
    ).first()
    if changed is not None and events:
        _add_events(session, run_id, changed.event_last - len(events) + 1, events, sizes, now)
    return changed


def begin(session: Session, run_id: str, new: NewRun, *, now: float) -> RunRow:
    """Adds a run that begins to wait, with its first event."""
    first = NewEvent(QUEUED)
    row = new_row(run_id, new, now=now)
    row.event_last, row.event_bytes = 1, len(json.dumps(first.data))
    session.add(row)
    session.flush()
    _add_events(session, run_id, 1, [first], [row.event_bytes], now)
    return row


_ADD_EVENT = insert(EventRow)


def _add_events(
    session: Session, run_id: str, first: int, events: Sequence[NewEvent], sizes: Sequence[int], now: float
) -> None:
    session.connection().execute(
        _ADD_EVENT,
        [
            {
                "run_id": run_id,
                "seq": first + place,
                "kind": event.kind,
                "data": dict(event.data),
                "size": size,
                "created_at": now,
            }
            for place, (event, size) in enumerate(zip(events, sizes, strict=True))
        ],
    )


def trim(session: Session, run_id: str, *, max_bytes: int) -> None:
    """Removes the oldest events of a run that has more than `max_bytes` of them; the newest one stays."""
    row = session.get_one(RunRow, run_id)
    if row.event_bytes <= max_bytes:
        return
    query = select(EventRow.seq, EventRow.size).where(
        EventRow.run_id == run_id, EventRow.seq < row.event_last
    )
    over, first = row.event_bytes - max_bytes, row.event_first
    for seq, size in session.execute(query.order_by(EventRow.seq).limit(TRIMMED_AT_ONCE)):
        if over <= 0:
            break
        over, first = over - size, seq + 1
    session.execute(delete(EventRow).where(EventRow.run_id == run_id, EventRow.seq < first))
    row.event_bytes, row.event_first = over + max_bytes, first


def finish(
    session: Session, run_id: str, *where: ColumnElement[bool], finished: Finished, now: float
) -> RunRow | None:
    """Writes how a run ended and its last event, if it is as `where` says and not finished; returns its row then."""
    outcome, limits_hit = dict(finished.outcome), list(finished.limits_hit)
    return step(
        session,
        run_id,
        RunRow.state != RunState.FINISHED,
        *where,
        events=[NewEvent(FINISHED, {"outcome": outcome, "limits_hit": limits_hit})],
        now=now,
        state=RunState.FINISHED,
        outcome=outcome,
        limits_hit=limits_hit,
        result=None if finished.result is None else dict(finished.result),
        finished_at=now,
        lease_until=None,
    )


def event_of(row: EventRow) -> RunEvent:
    """Returns a row as a value."""
    return RunEvent(row.run_id, row.seq, row.kind, row.data, row.created_at)


class Runs:
    """The runs of every tenant, to be looked at."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, run_id: str, *, tenant_id: str) -> Run:
        """Returns one run; raises RunNotFoundError, also for another tenant's."""
        return await self._database.read(lambda session: run_of(found(session, run_id, tenant_id)))

    async def list(
        self,
        *,
        tenant_id: str | None,
        state: RunState | None = None,
        kind: RunKind | None = None,
        skill: str | None = None,
        session_id: str | None = None,
        before: str | None = None,
        limit: int = 100,
    ) -> Sequence[Run]:
        """Returns runs, newest first, behind the id `before`; of every tenant for None."""
        wanted = (
            (RunRow.tenant_id, tenant_id),
            (RunRow.state, state),
            (RunRow.kind, kind),
            (RunRow.skill_name, skill),
            (RunRow.session_id, session_id),
        )
        query = select(RunRow).where(*(column == value for column, value in wanted if value is not None))
        if before is not None:
            query = query.where(RunRow.id < before)
        query = query.order_by(RunRow.id.desc()).limit(limit)
        return await self._database.read(lambda session: [run_of(row) for row in session.scalars(query)])
