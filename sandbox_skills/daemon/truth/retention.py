"""Old records go: finished runs, their events, keys of requests, closed sessions, conversations. The audit log stays.

Each step removes few rows at a time, so that no change of anybody waits long for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import CursorResult, delete, exists, select, update

from sandbox_skills.daemon.truth.changes import Change
from sandbox_skills.daemon.truth.run import RunState
from sandbox_skills.daemon.truth.sessions import SessionState
from sandbox_skills.daemon.truth.tables import (
    AgentRow,
    EventRow,
    IdempotencyRow,
    RunRow,
    SessionRow,
    ToolConversationRow,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Delete
    from sqlalchemy.orm import Session

    from sandbox_skills.daemon.truth.database import Database

BATCH = 100
"""Rows of one step: with their events a tenth of a second."""

DAY_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class RecordAges:
    """How long records stay, in seconds: runs and closed sessions behind their end, events of runs that ended.

    A model's conversation stays as long as a run, from its last change on.
    """

    runs: float = 30 * DAY_SECONDS
    events: float = 7 * DAY_SECONDS
    sessions: float = 30 * DAY_SECONDS


@dataclass(frozen=True, slots=True)
class RecordsRemoved:
    """How many went. `event_logs` counts the runs that lost theirs."""

    runs: int = 0
    event_logs: int = 0
    sessions: int = 0
    idempotency_keys: int = 0
    agents: int = 0
    conversations: int = 0


class Records:
    """What is kept of the past."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def retain(self, ages: RecordAges) -> RecordsRemoved:
        """Removes what is older."""
        now = self._database.clock()
        return RecordsRemoved(
            runs=await self._all(lambda session: _runs(session, before=now - ages.runs)),
            event_logs=await self._all(lambda session: _events(session, before=now - ages.events)),
            sessions=await self._all(lambda session: _sessions(session, before=now - ages.sessions)),
            idempotency_keys=await self._all(lambda session: _keys(session, before=now)),
            agents=await self._all(lambda session: _agents(session, before=now - ages.runs)),
            conversations=await self._all(lambda session: _conversations(session, before=now - ages.runs)),
        )

    async def _all(self, step: Callable[[Session], int]) -> int:
        """Takes steps until one finds less than there may be."""
        total = 0
        while True:
            count = await self._database.write(Change.RETENTION, step)
            total += count
            if count < BATCH:
                return total


def _agents(session: Session, *, before: float) -> int:
    ids = session.scalars(select(AgentRow.id).where(AgentRow.updated_at < before).limit(BATCH)).all()
    return _removed(session, delete(AgentRow).where(AgentRow.id.in_(ids)))


def _conversations(session: Session, *, before: float) -> int:
    old = select(ToolConversationRow.tenant_id, ToolConversationRow.id)
    rows = session.execute(old.where(ToolConversationRow.used_at < before).limit(BATCH)).all()
    for tenant_id, conversation_id in rows:
        named = (ToolConversationRow.tenant_id == tenant_id, ToolConversationRow.id == conversation_id)
        session.execute(delete(ToolConversationRow).where(*named))
    return len(rows)


def _runs(session: Session, *, before: float) -> int:
    query = select(RunRow.id).where(RunRow.state == RunState.FINISHED, RunRow.finished_at < before)
    ids = session.scalars(query.limit(BATCH)).all()
    _removed(session, delete(IdempotencyRow).where(IdempotencyRow.run_id.in_(ids)))
    return _removed(session, delete(RunRow).where(RunRow.id.in_(ids)))


def _events(session: Session, *, before: float) -> int:
    kept = RunRow.event_first <= RunRow.event_last
    query = select(RunRow.id).where(RunRow.state == RunState.FINISHED, RunRow.finished_at < before, kept)
    ids = session.scalars(query.limit(BATCH)).all()
    _removed(session, delete(EventRow).where(EventRow.run_id.in_(ids)))
    emptied = {"event_first": RunRow.event_last + 1, "event_bytes": 0}
    session.execute(update(RunRow).where(RunRow.id.in_(ids)).values(emptied))
    return len(ids)


def _sessions(session: Session, *, before: float) -> int:
    has_runs = exists().where(RunRow.session_id == SessionRow.id)
    over = (SessionRow.state == SessionState.CLOSED, SessionRow.expires_at < before, ~has_runs)
    ids = session.scalars(select(SessionRow.id).where(*over).limit(BATCH)).all()
    return _removed(session, delete(SessionRow).where(SessionRow.id.in_(ids)))


def _keys(session: Session, *, before: float) -> int:
    over = select(IdempotencyRow.tenant_id, IdempotencyRow.key).where(IdempotencyRow.expires_at <= before)
    rows = session.execute(over.limit(BATCH)).all()
    for tenant_id, key in rows:
        session.execute(
            delete(IdempotencyRow).where(IdempotencyRow.tenant_id == tenant_id, IdempotencyRow.key == key)
        )
    return len(rows)


def _removed(session: Session, query: Delete) -> int:
    result = session.execute(query.execution_options(synchronize_session=False))
    return result.rowcount if isinstance(result, CursorResult) else 0
