"""Conversations of models on the server, as rows: what was asked, where they stand, and the runs that they took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from sandbox_skills.daemon.errors import AgentRunNotFoundError
from sandbox_skills.daemon.truth import audit
from sandbox_skills.daemon.truth.audit import Deed
from sandbox_skills.daemon.truth.changes import Change
from sandbox_skills.daemon.truth.ids import new_id
from sandbox_skills.daemon.truth.tables import AgentRow

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from sqlalchemy.orm import Session

    from sandbox_skills.daemon.truth.database import Database


@dataclass(frozen=True, slots=True)
class Leg:
    """One run of a conversation; `base` is how many events the runs before it had."""

    run_id: str
    base: int


@dataclass(frozen=True, slots=True)
class Word:
    """What a person has said of a call that waits."""

    call_id: str
    approved: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Agent:
    """A conversation. `input` is what is not in `conversation` yet; times are UTC seconds since the epoch."""

    id: str
    tenant_id: str
    request: Mapping[str, Any]
    input: str | None
    conversation: str | None
    words: tuple[Word, ...]
    legs: tuple[Leg, ...]
    created_at: float
    updated_at: float
    cancelled_at: float | None


class Agents:
    """The conversations of every tenant. Every method but `create` and `list` raises AgentRunNotFoundError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, request: Mapping[str, Any], text: str, *, tenant_id: str, actor: str) -> Agent:
        """Begins a conversation with what the user says."""
        now = self._database.clock()
        row = AgentRow(
            id=new_id(),
            tenant_id=tenant_id,
            request=dict(request),
            input=text,
            conversation=None,
            words=[],
            legs=[],
            created_at=now,
            updated_at=now,
            cancelled_at=None,
        )

        def add(session: Session) -> Agent:
            session.add(row)
            session.flush()
            deed = Deed(actor, "agent.create", f"agent:{row.id}", tenant_id, {"model": row.request["model"]})
            audit.append(session, deed, at=now)
            return _agent(row)

        return await self._database.write(Change.AGENT_CREATE, add)

    async def get(self, agent_id: str, *, tenant_id: str | None = None) -> Agent:
        """Returns one; where a tenant is named only one of that."""
        return await self._database.read(lambda session: _agent(_found(session, agent_id, tenant_id)))

    async def list(self, *, tenant_id: str, before: str | None, limit: int) -> Sequence[Agent]:
        """Returns a tenant's, newest first, behind the id `before`."""
        query = select(AgentRow).where(AgentRow.tenant_id == tenant_id)
        if before is not None:
            query = query.where(AgentRow.id < before)
        query = query.order_by(AgentRow.id.desc()).limit(limit)
        return await self._database.read(lambda session: [_agent(row) for row in session.scalars(query)])

    async def say(self, agent_id: str, text: str) -> Agent:
        """Adds what the user says next."""

        def change(row: AgentRow) -> None:
            row.input, row.cancelled_at = text, None

        return await self._change(agent_id, change)

    async def decide(self, agent_id: str, word: Word) -> Agent:
        """Adds a word on a call that waits, in place of one before."""

        def change(row: AgentRow) -> None:
            row.words = [*_without(row, {word.call_id}), _word_dict(word)]

        return await self._change(agent_id, change)

    async def save(self, agent_id: str, conversation: str, *, used: Collection[str] = ()) -> Agent:
        """Keeps where the conversation stands; what was said is in it by now, and the words on `used` calls."""

        def change(row: AgentRow) -> None:
            row.conversation, row.input, row.words = conversation, None, _without(row, used)

        return await self._change(agent_id, change)

    async def begin_leg(self, agent_id: str, leg: Leg) -> Agent:
        """Adds a run to the conversation, unless it is there."""

        def change(row: AgentRow) -> None:
            if all(one["run_id"] != leg.run_id for one in row.legs):
                row.legs = [*row.legs, {"run_id": leg.run_id, "base": leg.base}]

        return await self._change(agent_id, change)

    async def cancel(self, agent_id: str) -> Agent:
        """Says that nobody waits for it any more."""

        def change(row: AgentRow) -> None:
            row.cancelled_at = row.cancelled_at or self._database.clock()

        return await self._change(agent_id, change)

    async def _change(self, agent_id: str, change: Callable[[AgentRow], None]) -> Agent:
        def work(session: Session) -> Agent:
            row = _found(session, agent_id)
            change(row)
            row.updated_at = self._database.clock()
            return _agent(row)

        return await self._database.write(Change.AGENT_UPDATE, work)


def _found(session: Session, agent_id: str, tenant_id: str | None = None) -> AgentRow:
    row = session.get(AgentRow, agent_id)
    if row is None or tenant_id not in {None, row.tenant_id}:
        raise AgentRunNotFoundError(f"there is no run {agent_id[:80]!r} of a model")
    return row


def _without(row: AgentRow, call_ids: Collection[str]) -> list[dict[str, Any]]:
    return [one for one in row.words if one["call_id"] not in call_ids]


def _word_dict(word: Word) -> dict[str, Any]:
    return {"call_id": word.call_id, "approved": word.approved, "reason": word.reason}


def _agent(row: AgentRow) -> Agent:
    return Agent(
        id=row.id,
        tenant_id=row.tenant_id,
        request=row.request,
        input=row.input,
        conversation=row.conversation,
        words=tuple(Word(**one) for one in row.words),
        legs=tuple(Leg(**one) for one in row.legs),
        created_at=row.created_at,
        updated_at=row.updated_at,
        cancelled_at=row.cancelled_at,
    )
