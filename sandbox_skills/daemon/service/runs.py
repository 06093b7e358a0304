"""Runs as their tenant sees them: asked for, waited for, listed, cancelled, followed."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from sandbox_skills.daemon.dispatch.base import QueueFull
from sandbox_skills.daemon.errors import QueueFullError, RateLimitedError, RunNotFoundError
from sandbox_skills.daemon.service.brief_memory import BriefMemory
from sandbox_skills.daemon.truth.run import NewRun, RunKind, RunState, SkillRef
from sandbox_skills.errors import InputError, SkillNotFoundError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from sandbox_skills.daemon.dispatch.base import EventLog, RunQueue
    from sandbox_skills.daemon.dispatch.ends import Ends
    from sandbox_skills.daemon.service.run_order import RunOrder
    from sandbox_skills.daemon.service.sessions import SessionService
    from sandbox_skills.daemon.service.skills import OpenedSkill, SkillService
    from sandbox_skills.daemon.truth.run import IdempotencyKey, Run, RunEvent
    from sandbox_skills.daemon.truth.runs import Runs
    from sandbox_skills.daemon.truth.tenants import Tenant
    from sandbox_skills.toolsets.skill_runs import Demand


LATEST = "latest"

AT_ONCE_SECONDS = 1.0
"""How soon a run begins for which what was read of it counts still: for one that had to wait, all is read again."""

MOST_AT_ONCE = 64
"""Runs that are remembered so: more do not begin at once, and each may hold a body of a megabyte."""

LOOK_SECONDS = 1.0
"""Between two looks at a run that is waited for, where another process may end it: ours says when it does."""

MAX_DIGITS = 18
"""Of a version: what fits the integers of every database."""


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs are listed; None: all."""

    state: RunState | None = None
    skill: str | None = None
    session_id: str | None = None


@dataclass(frozen=True, slots=True)
class AcceptedRun:
    """What was asked for, the skill as it was found, and its tenant as it was read.

    The skill is None where it was uploaded, as its files are to be held, the tenant where the run has to wait.
    """

    order: RunOrder
    skill: OpenedSkill | None
    tenant: Tenant | None


AcceptedRuns = BriefMemory[str, AcceptedRun]
"""What this process has read of runs, by their ids. The rows say all of it, too."""


def accepted_runs() -> AcceptedRuns:
    """Returns a memory of runs."""
    return AcceptedRuns(AT_ONCE_SECONDS, MOST_AT_ONCE)


@dataclass(frozen=True, slots=True)
class RunService:
    """What a tenant does with runs. `engine` is the one that this server has."""

    queue: RunQueue
    events: EventLog
    ends: Ends
    kept: Runs
    skills: SkillService
    sessions: SessionService
    accepted: AcceptedRuns
    demanded: Demand
    engine: str
    longest_wait: float

    async def submit(
        self,
        order: RunOrder,
        *,
        tenant: str,
        actor: str,
        idempotency: IdempotencyKey | None = None,
        read: Tenant | None = None,
    ) -> Run:
        """Queues a run and returns it, or the one that the key stands for. `read` is its tenant, read just now.

        Raises SkillNotFoundError, SessionNotFoundError, InputError for another engine, IdempotencyError,
        RateLimitedError, QueueFullError, DrainingError.
        """
        if order.engine not in {None, self.engine}:
            raise InputError(f"this server has no engine {order.engine!r}", hint=f"it has {self.engine}")
        skill, opened = await self._skill(order, tenant=tenant)
        if order.session_id is not None:
            await self.sessions.check(order.session_id, tenant=tenant)
        new = NewRun(
            tenant_id=tenant,
            request=order.kept(),
            skill=skill,
            session_id=order.session_id,
            needs=frozenset({RunKind.SKILL.value}),
            idempotency=idempotency,
            actor=actor,
        )
        answer = await self.queue.submit(new)
        if isinstance(answer, QueueFull):
            raise refusal(answer)
        if not answer.replayed:
            begins = answer.run.state is RunState.RUNNING  # else an admin may change its tenant meanwhile
            self.accepted.keep(answer.run.id, AcceptedRun(order, opened, read if begins else None))
        return answer.run

    async def _skill(self, order: RunOrder, *, tenant: str) -> tuple[SkillRef, OpenedSkill | None]:
        """Returns the version that the run is to be of, whatever is uploaded before its turn has come."""
        pinned = partial(self.demanded, asked=order.skill)
        entry, opened = await self.skills.asked_for(order.skill, tenant=tenant, pinned=pinned)
        wanted = version_number(order.version)
        if entry.version is None:
            if wanted is not None:
                raise SkillNotFoundError(
                    f"the server's skill {entry.spec.name!r} has no versions", hint="leave the version out"
                )
            return SkillRef(entry.spec.name, "", entry.spec.digest or "", "server"), opened
        version = entry.version
        if wanted is not None:
            version = await self.skills.version(entry.spec.name, wanted, tenant=tenant)
        return SkillRef(entry.spec.name, str(version.version), version.digest, "tenant"), None

    async def get(self, run_id: str, *, tenant: str) -> Run:
        """Returns a run; raises RunNotFoundError, also for a foreign one and for a leg of a conversation."""
        run = await self.kept.get(run_id, tenant_id=tenant)
        if run.kind is not RunKind.SKILL:
            raise RunNotFoundError(f"no run {run_id}")
        return run

    async def list(self, wanted: RunFilter, *, before: str | None, limit: int, tenant: str) -> Sequence[Run]:
        """Returns runs, newest first, from the one before the id `before` on."""
        return await self.kept.list(
            tenant_id=tenant,
            kind=RunKind.SKILL,
            state=wanted.state,
            skill=wanted.skill,
            session_id=wanted.session_id,
            before=before,
            limit=limit,
        )

    async def cancel(self, run_id: str, *, tenant: str) -> Run:
        """Asks for the end of a run and returns it; raises RunNotFoundError."""
        run = await self.queue.cancel(run_id, tenant_id=tenant)
        if run.state is RunState.FINISHED:
            self.ends.tell(run)
        return run

    async def wait(self, run_id: str, *, tenant: str, seconds: float) -> Run:
        """Returns a run once it has finished, or as it is when the time is over; raises RunNotFoundError."""
        with self.ends.awaiting(run_id) as told:
            return await self._finished(await self.get(run_id, tenant=tenant), told, seconds)

    async def outcome(self, run: Run, *, seconds: float) -> Run:
        """Returns what `wait` does, for who has just submitted the run: it cannot have ended before."""
        with self.ends.awaiting(run.id) as told:
            return await self._finished(run, told, seconds)

    async def _finished(self, run: Run, told: asyncio.Future[Run], seconds: float) -> Run:
        until = time.monotonic() + min(seconds, self.longest_wait)
        while run.state is not RunState.FINISHED and (left := until - time.monotonic()) > 0:
            await asyncio.wait([told], timeout=min(left, LOOK_SECONDS))
            run = told.result() if told.done() else await self.get(run.id, tenant=run.tenant_id)
        return run

    async def follow(self, run_id: str, *, tenant: str, after: int = 0) -> AsyncGenerator[RunEvent]:
        """Returns the events of a run behind number `after`, as they come, until it has finished.

        Raises RunNotFoundError, and EventsLostError where the next one is not kept any more.
        """
        await self.get(run_id, tenant=tenant)
        await self.events.read(run_id, after=after, limit=1)
        return self.events.follow(run_id, after=after)


def version_number(text: str) -> int | None:
    """Returns the number of a version, None for the latest; raises SkillNotFoundError for what is neither. Pure."""
    if text in {"", LATEST}:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > MAX_DIGITS:
        raise SkillNotFoundError(
            f"no version is called {text[:80]!r}", hint="versions are numbers, or latest"
        )
    return int(text)


def refusal(full: QueueFull) -> Exception:
    """Returns why a run was not queued: its tenant's limit is its own business, the server's is everybody's."""
    if full.scope == "tenant":
        return RateLimitedError(
            f"{full.limit} runs of yours wait already",
            hint="wait for some of them, or ask an admin for a longer queue",
            name="queue",
            limit=full.limit,
            retry_after=full.retry_after,
        )
    return QueueFullError(
        f"{full.limit} runs wait already", hint="try again later", retry_after=full.retry_after
    )
