"""Conversations of models on the server, as rows: what was asked, where they stand, and the runs that they took."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from sandbox_skills.daemon.errors import AgentRunNotFoundError
from sandbox_skills.daemon.truth import audit
from sandbox_skills.daemon.truth.audit import Deed
from sandbox_skills.daemon.truth.changes import Change
from sandbox_skills.daemon.truth.tables import AgentRow

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from sqlalchemy.orm import Session

    from sandbox_skills.daemon.truth.database import Database
    from sandbox_skills.daemon.truth.run import Run


@dataclass(frozen=True, slots=True)
class Leg:
    """One run of a conversation; `base` is how many events the runs before it had."""

    run_id: str
    base: int


@dataclass(frozen=True, slots=True)
class Beginning:
    """How a conversation begins: what was asked for, what the user says, and who it is of in the audit log."""

    request: Mapping[str, Any]
    input: str
    actor: str


@dataclass(frozen=True, slots=True)
class LegRequest:
    """What a run of a conversation is asked: whose it is, from which event on, and how that begins if it does."""

    agent_id: str
    base: int = 0
    begin: Beginning | None = None

    def kept(self) -> dict[str, Any]:
        """Returns what is kept of it with the run."""
        begin = {} if self.begin is None else {"begin": asdict(self.begin)}
        return {"agent": self.agent_id, "base": self.base, **begin}

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> LegRequest:
        """Returns what `kept` made of it."""
        begin = request.get("begin")
        return cls(request["agent"], request["base"], None if begin is None else Beginning(**begin))


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
    """The conversations of every tenant. Every method but `list` raises AgentRunNotFoundError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_run(self, run: Run) -> Agent:
        """Returns the conversation that a run is a leg of, with that leg; begins it where the run is to.

        Can be done again, by whoever queued the run and by whoever works on it.
        """
        leg = LegRequest.of(run.request)

        def work(session: Session) -> Agent:
            now = self._database.clock()
            if leg.begin is not None and session.get(AgentRow, leg.agent_id) is None:
                _begin(session, leg.agent_id, leg.begin, run.tenant_id, now=now)
            row = _found(session, leg.agent_id, run.tenant_id)
            if all(one["run_id"] != run.id for one in row.legs):
                row.legs = [*row.legs, {"run_id": run.id, "base": leg.base}]
                row.updated_at = now
            return _agent(row)

        change = Change.AGENT_UPDATE if leg.begin is None else Change.AGENT_CREATE
        return await self._database.write(change, work)

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


def _begin(session: Session, agent_id: str, begin: Beginning, tenant_id: str, *, now: float) -> None:
    row = AgentRow(
        id=agent_id,
        tenant_id=tenant_id,
        request=dict(begin.request),
        input=begin.input,
        conversation=None,
        words=[],
        legs=[],
        created_at=now,
        updated_at=now,
        cancelled_at=None,
    )
    session.add(row)
    session.flush()
    deed = Deed(begin.actor, "agent.create", f"agent:{agent_id}", tenant_id, {"model": row.request["model"]})
    audit.append(session.connection(), deed, at=now)


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
