"""Runs as rows: how they are read, and the steps of their life as parts of a transaction.

A step that an attempt takes names that attempt, and finds nothing where another one has the run by now. The statements
are prepared: each run is three or four steps.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, delete, exists, insert, select, update

from sandbox_skills.daemon.errors import RunNotFoundError
from sandbox_skills.daemon.truth.prepared import Prepared, named
from sandbox_skills.daemon.truth.run import (
    FINISHED,
    QUEUED,
    STARTED,
    NewEvent,
    NewRun,
    Run,
    RunEvent,
    RunKind,
    RunState,
    SkillRef,
)
from sandbox_skills.daemon.truth.tables import EVENT, RUN, EventRow, RunRow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection, Row

    from sandbox_skills.daemon.truth.database import Database
    from sandbox_skills.daemon.truth.run import Finished

TRIMMED_AT_ONCE = 1000
"""Events looked at to make room: more than one append brings."""


def run_of(row: RunRow | Row[Any]) -> Run:
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


@dataclass(frozen=True, slots=True)
class Holder:
    """The node that works on a run, and until when it is believed to if it says nothing more."""

    node: str
    lease_until: float

    def began(self) -> NewEvent:
        """Returns the event that tells of it."""
        return NewEvent(STARTED, {"node": self.node})


def new_run(run_id: str, new: NewRun, *, now: float, holder: Holder | None = None) -> Run:
    """Returns a run that begins to wait, or that a node has at once; its events are written with it. Pure."""
    waits = holder is None
    return Run(
        id=run_id,
        tenant_id=new.tenant_id,
        kind=new.kind,
        session_id=new.session_id,
        skill=new.skill,
        state=RunState.QUEUED if waits else RunState.RUNNING,
        request=dict(new.request),
        needs=new.needs,
        attempt=0 if waits else 1,
        node=None if holder is None else holder.node,
        outcome=None,
        limits_hit=(),
        result=None,
        created_at=now,
        started_at=None if waits else now,
        finished_at=None,
        cancel_requested_at=None,
        event_last=1 if waits else 2,
    )


def row_values(run: Run, *, lease_until: float | None = None, event_bytes: int = 0) -> dict[str, Any]:
    """Returns the columns of a run that has not ended. Pure."""
    return {
        "id": run.id,
        "tenant_id": run.tenant_id,
        "session_id": run.session_id,
        "kind": run.kind,
        "skill_name": run.skill.name,
        "skill_version": run.skill.version,
        "skill_digest": run.skill.digest,
        "skill_source": run.skill.source,
        "state": run.state,
        "request": run.request,
        "needs": " ".join(sorted(run.needs)),
        "attempt": run.attempt,
        "node": run.node,
        "lease_until": lease_until,
        "limits_hit": list(run.limits_hit),
        "created_at": run.created_at,
        "started_at": run.started_at,
        "event_first": 1,
        "event_last": run.event_last,
        "event_bytes": event_bytes,
    }


_NEW_COLUMNS = row_values(new_run("", NewRun("", {}), now=0.0)).keys()


def found(connection: Connection, run_id: str, tenant_id: str | None = None) -> Run:
    """Returns a run, one of that tenant's if it is named; raises RunNotFoundError."""
    row = _FIND.first(connection, {"run": run_id})
    if row is None or tenant_id not in {None, row.tenant_id}:
        raise RunNotFoundError(f"there is no run {run_id[:80]!r}")
    return run_of(row)


_FIND = Prepared(select(*RUN.c).where(RUN.c.id == bindparam("run")).with_for_update())


@dataclass(frozen=True, slots=True)
class Standing:
    """How a run has to stand for a step: its state, and the attempt that holds it where that is named."""

    state: RunState
    attempt: int | None = None


def step(
    connection: Connection,
    run_id: str,
    standing: Standing,
    changes: Mapping[str, Any],
    *,
    events: Sequence[NewEvent] = (),
    now: float,
    whole: bool = False,
) -> Row[Any] | None:
    """Changes columns of a run and adds events to its log, if it stands so; one that begins to go has a new attempt.

    Returns its row then, of which only the COUNTERS unless it is to be `whole`, else None.
    """
    texts = _texts(events)
    parameters = {
        "for_run": run_id,
        "in_state": standing.state,
        "more_events": len(events),
        "more_bytes": _size(texts),
        "more_attempts": int(changes.get("state") == RunState.RUNNING),
        **{f"new_{name}": value for name, value in changes.items()},
    }
    if standing.attempt is not None:
        parameters["of_attempt"] = standing.attempt
    statement = _step(tuple(changes), fenced=standing.attempt is not None, whole=whole)
    changed = statement.first(connection, parameters)
    if changed is not None and events:
        _add_events(connection, run_id, changed.event_last - len(events) + 1, events, texts, now)
    return changed


_OTHER = RUN.alias("other")
COUNTERS = (
    RUN.c.event_first,
    RUN.c.event_last,
    RUN.c.event_bytes,
    RUN.c.cancel_requested_at,
    exists().where(_OTHER.c.state == RunState.QUEUED).label("others_wait"),
)
"""What most steps have to know of a run, and whether another one waits: the rest may be a megabyte of results."""


@cache
def _step(names: tuple[str, ...], *, fenced: bool, whole: bool) -> Prepared:
    """Returns the statement of one kind of step, of which there are few; `names` are the columns that it sets."""
    where = [RUN.c.id == bindparam("for_run"), RUN.c.state == bindparam("in_state")]
    if fenced:
        where.append(RUN.c.attempt == bindparam("of_attempt"))
    counted = {
        "event_last": RUN.c.event_last + bindparam("more_events"),
        "event_bytes": RUN.c.event_bytes + bindparam("more_bytes"),
        "attempt": RUN.c.attempt + bindparam("more_attempts"),
    }
    changed = {name: bindparam(f"new_{name}", type_=RUN.c[name].type) for name in names}
    returned = RUN.c if whole else COUNTERS
    return Prepared(update(RUN).where(*where).values(counted | changed).returning(*returned))


def begin(
    connection: Connection, run_id: str, new: NewRun, *, now: float, holder: Holder | None = None
) -> Run:
    """Adds a run that begins to wait, with its first event; or one that a node has at once, with its second, too."""
    run = new_run(run_id, new, now=now, holder=holder)
    events = [NewEvent(QUEUED)] if holder is None else [NewEvent(QUEUED), holder.began()]
    texts = _texts(events)
    until = None if holder is None else holder.lease_until
    _ADD_RUN.run(connection, row_values(run, lease_until=until, event_bytes=_size(texts)))
    _add_events(connection, run_id, 1, events, texts, now)
    return run


_ADD_RUN = Prepared(insert(RUN).values(named(_NEW_COLUMNS)))
_ADD_EVENT = Prepared(insert(EVENT).values(named([column.name for column in EVENT.c], as_json={"data"})))
"""With what an event tells as JSON already, whose length is its size."""


def _texts(events: Sequence[NewEvent]) -> Sequence[str]:
    return [json.dumps(dict(event.data)) if event.data else "{}" for event in events]


def _size(texts: Sequence[str]) -> int:
    return sum(map(len, texts))


def _add_events(
    connection: Connection,
    run_id: str,
    first: int,
    events: Sequence[NewEvent],
    texts: Sequence[str],
    now: float,
) -> None:
    _ADD_EVENT.run_all(
        connection,
        [
            {
                "run_id": run_id,
                "seq": first + place,
                "kind": event.kind,
                "data": text,
                "size": len(text),
                "created_at": now,
            }
            for place, (event, text) in enumerate(zip(events, texts, strict=True))
        ],
    )


def trim(connection: Connection, run_id: str, kept: Row[Any], *, max_bytes: int) -> None:
    """Removes the oldest events of a run that has more than `max_bytes` of them; the newest one stays.

    `kept` are its COUNTERS.
    """
    over, first = kept.event_bytes - max_bytes, kept.event_first
    if over <= 0:
        return
    query = select(EVENT.c.seq, EVENT.c.size).where(EVENT.c.run_id == run_id, EVENT.c.seq < kept.event_last)
    for seq, size in connection.execute(query.order_by(EVENT.c.seq).limit(TRIMMED_AT_ONCE)):
        if over <= 0:
            break
        over, first = over - size, seq + 1
    connection.execute(delete(EVENT).where(EVENT.c.run_id == run_id, EVENT.c.seq < first))
    connection.execute(
        update(RUN).where(RUN.c.id == run_id).values(event_bytes=over + max_bytes, event_first=first)
    )


def finish(
    connection: Connection,
    run_id: str,
    standing: Standing,
    finished: Finished,
    *,
    events: Sequence[NewEvent] = (),
    now: float,
    whole: bool = False,
) -> Row[Any] | None:
    """Writes `events`, how a run ended, and its last event, if it stands so; returns what `step` does."""
    outcome, limits_hit = dict(finished.outcome), list(finished.limits_hit)
    changes = {
        "state": RunState.FINISHED,
        "outcome": outcome,
        "limits_hit": limits_hit,
        "result": None if finished.result is None else dict(finished.result),
        "finished_at": now,
        "lease_until": None,
    }
    last = NewEvent(FINISHED, {"outcome": outcome, "limits_hit": limits_hit})
    return step(connection, run_id, standing, changes, events=[*events, last], now=now, whole=whole)


def event_of(row: EventRow | Row[Any]) -> RunEvent:
    """Returns a row as a value."""
    return RunEvent(row.run_id, row.seq, row.kind, row.data, row.created_at)


class Runs:
    """The runs of every tenant, to be looked at."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, run_id: str, *, tenant_id: str) -> Run:
        """Returns one run; raises RunNotFoundError, also for another tenant's."""
        return await self._database.read(lambda session: found(session.connection(), run_id, tenant_id))

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
