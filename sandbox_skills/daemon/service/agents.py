"""Conversations of models as their tenant sees them: begun, followed, decided on, stopped, gone on with.

A conversation is worked on in legs, each a run of the queue: one ends when the model is done or a call waits for a
person, and the next begins with what is said then. Nothing is held while somebody thinks.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from sandbox_skills.controller.state import RunState
from sandbox_skills.daemon.access.limits import tenant_limits
from sandbox_skills.daemon.dispatch.base import QueueFull
from sandbox_skills.daemon.errors import AgentRunBusyError, RunNotFoundError
from sandbox_skills.daemon.service.runs import refusal
from sandbox_skills.daemon.service.while_used import WhileUsed
from sandbox_skills.daemon.truth.agents import Beginning, LegRequest, Word
from sandbox_skills.daemon.truth.ids import new_id
from sandbox_skills.daemon.truth.run import NewRun, RunKind
from sandbox_skills.daemon.truth.run import RunState as LegState

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from sandbox_skills.daemon.dispatch.base import EventLog, RunQueue
    from sandbox_skills.daemon.service.agent_models import AgentModels
    from sandbox_skills.daemon.service.tools import ToolService
    from sandbox_skills.daemon.truth.agents import Agent, Agents
    from sandbox_skills.daemon.truth.run import IdempotencyKey, Run, RunEvent
    from sandbox_skills.daemon.truth.runs import Runs

AgentState = Literal["queued", "running", "waiting", "finished", "interrupted", "failed", "cancelled"]
"""`interrupted` was going when the daemon ended, `failed` lost its model or its sandbox: both can be resumed."""

_GOING = frozenset({"queued", "running"})


@dataclass(frozen=True, slots=True)
class AgentRun:
    """A conversation and its latest leg, None where that is not kept any more."""

    agent: Agent
    leg: Run | None

    @property
    def result(self) -> Mapping[str, Any]:
        """What the latest leg came to; empty before its end."""
        return (self.leg.result if self.leg is not None else None) or {}

    @property
    def decided(self) -> bool:
        """Whether it waits for a word that was said."""
        waiting = {call["id"] for call in self.result.get("waiting", ())}
        return self.state == "waiting" and any(word.call_id in waiting for word in self.agent.words)

    @property
    def outcome(self) -> Mapping[str, Any]:
        """How the latest leg ended; empty before its end."""
        return (self.leg.outcome if self.leg is not None else None) or {}

    @property
    def state(self) -> AgentState:
        """Where it stands."""
        if self.leg is None:
            return "finished" if self.agent.legs else "queued"
        if self.leg.state is not LegState.FINISHED:
            return "queued" if self.leg.state is LegState.QUEUED else "running"
        return self._ended()

    def _ended(self) -> AgentState:
        kind, waits = self.outcome.get("type"), self.result.get("status") == "waiting"
        if kind == "stopped" or self.agent.cancelled_at is not None:
            return "cancelled"
        if kind != "exited":
            return "interrupted" if self.outcome.get("reason") == "restarted" else "failed"
        return "waiting" if waits else "finished"


class AgentService:
    """What a tenant does with its conversations. Methods raise AgentRunNotFoundError for one that is not there."""

    def __init__(  # what it works with
        self,
        agents: Agents,
        queue: RunQueue,
        events: EventLog,
        runs: Runs,
        tools: ToolService,
        models: AgentModels,
    ) -> None:
        self._tools = tools
        self._models = models
        self._agents = agents
        self._queue = queue
        self._events = events
        self._runs = runs
        self._locks = WhileUsed(asyncio.Lock)

    async def create(
        self,
        request: Mapping[str, Any],
        text: str,
        *,
        tenant: str,
        actor: str,
        idempotency: IdempotencyKey | None = None,
    ) -> AgentRun:
        """Begins a conversation, or returns the one that the key stands for. Nothing is kept of one that is refused.

        Raises PolicyError for a model that the tenant may not ask, SettingsError for a toolset or where no model is
        named, SessionNotFoundError, IdempotencyError, RateLimitedError, QueueFullError.
        """
        await self._check(request, tenant=tenant)
        begin = LegRequest(new_id(), begin=Beginning(request, text, actor))
        run = await self._queued(begin, tenant=tenant, actor=actor, idempotency=idempotency)
        return await self._with_leg(await self._agents.of_run(run))

    async def _check(self, request: Mapping[str, Any], *, tenant: str) -> None:
        tools = await self._tools.tools_of(tenant)
        self._models.chosen(request["model"], tenant_limits(tools.tenant.limits))
        session_id = request["session_id"]
        await self._tools.offer("responses", request["toolsets"], session_id=session_id, tenant=tenant)

    async def get(self, agent_id: str, *, tenant: str) -> AgentRun:
        """Returns a conversation as it stands."""
        run = await self._current(agent_id, tenant=tenant)
        if not run.decided:
            return run
        # A word came too late for the leg that was under way.
        async with self._locks.of(agent_id):
            run = await self._current(agent_id, tenant=tenant)
            return await self._next_leg(run, actor="daemon") if run.decided else run

    async def list(self, *, before: str | None, limit: int, tenant: str) -> Sequence[AgentRun]:
        """Returns conversations, newest first, behind the id `before`."""
        found = await self._agents.list(tenant_id=tenant, before=before, limit=limit)
        return [await self._with_leg(agent) for agent in found]

    async def decide(self, agent_id: str, word: Word, *, tenant: str, actor: str) -> AgentRun:
        """Says whether a call that waits may run, and goes on with it.

        Raises AgentRunBusyError where no such call waits.
        """
        async with self._locks.of(agent_id):
            run = await self._current(agent_id, tenant=tenant)
            if run.state not in {*_GOING, "waiting"} or word.call_id not in _asked(run.agent):
                raise AgentRunBusyError(
                    f"no call {word.call_id[:80]!r} waits for a word",
                    hint="the run tells which calls wait, once it does",
                )
            run = replace(run, agent=await self._agents.decide(agent_id, word))
            return await self._next_leg(run, actor=actor) if run.decided else run

    async def resume(self, agent_id: str, text: str | None, *, tenant: str, actor: str) -> AgentRun:
        """Goes on with what the user says next, or, without that, where the last leg broke off.

        Raises AgentRunBusyError where it is under way, or waits for a word on a call.
        """
        async with self._locks.of(agent_id):
            run = await self._current(agent_id, tenant=tenant)
            if run.state in _GOING or run.state == "waiting":
                raise AgentRunBusyError(f"the run is {run.state}", hint="wait for it, or decide on its calls")
            if text is None and run.state == "finished":
                raise AgentRunBusyError("the run has finished", hint="say something: `input`")
            if text is not None:
                run = replace(run, agent=await self._agents.say(agent_id, text))
            return await self._next_leg(run, actor=actor)

    async def cancel(self, agent_id: str, *, tenant: str) -> AgentRun:
        """Asks for the end of what is under way, and of what waits; what has ended stays as it is."""
        async with self._locks.of(agent_id):
            run = await self._current(agent_id, tenant=tenant)
            if run.state in _GOING and run.leg is not None:
                return AgentRun(run.agent, await self._queue.cancel(run.leg.id, tenant_id=tenant))
            if run.state == "waiting":
                return AgentRun(await self._agents.cancel(agent_id), run.leg)
            return run

    async def follow(self, agent_id: str, *, tenant: str, after: int = 0) -> AsyncGenerator[RunEvent]:
        """Returns the events behind number `after`, numbered through all legs, until the latest leg is over.

        Raises EventsLostError where the next one is not kept any more.
        """
        agent = await self._agents.get(agent_id, tenant_id=tenant)
        if leg := next((one for one in reversed(agent.legs) if one.base <= after), None):
            await self._events.read(leg.run_id, after=after - leg.base, limit=1)
        return self._follow(agent, after)

    async def _follow(self, agent: Agent, after: int) -> AsyncGenerator[RunEvent]:
        done = 0
        while len(agent.legs) > done:
            for place, leg in enumerate(agent.legs[done:], done + 1):
                following = agent.legs[place].base if place < len(agent.legs) else None
                if following is not None and following <= after:
                    continue
                start = max(0, after - leg.base)
                async with aclosing(self._events.follow(leg.run_id, after=start)) as events:
                    async for event in events:
                        after = leg.base + event.seq
                        yield replace(event, run_id=agent.id, seq=after)
            done = len(agent.legs)
            agent = (await self.get(agent.id, tenant=agent.tenant_id)).agent

    async def _current(self, agent_id: str, *, tenant: str) -> AgentRun:
        return await self._with_leg(await self._agents.get(agent_id, tenant_id=tenant))

    async def _with_leg(self, agent: Agent) -> AgentRun:
        try:
            leg = await self._leg(agent) if agent.legs else None
        except RunNotFoundError:
            leg = None
        return AgentRun(agent, leg)

    async def _leg(self, agent: Agent) -> Run:
        return await self._runs.get(agent.legs[-1].run_id, tenant_id=agent.tenant_id)

    async def _next_leg(self, run: AgentRun, *, actor: str) -> AgentRun:
        """Queues the next leg, within the conversation's lock."""
        base = 0
        if run.agent.legs and run.leg is not None:
            base = run.agent.legs[-1].base + run.leg.event_last
        leg = await self._queued(LegRequest(run.agent.id, base), tenant=run.agent.tenant_id, actor=actor)
        return AgentRun(await self._agents.of_run(leg), leg)

    async def _queued(
        self, leg: LegRequest, *, tenant: str, actor: str, idempotency: IdempotencyKey | None = None
    ) -> Run:
        new = NewRun(
            tenant_id=tenant,
            request=leg.kept(),
            kind=RunKind.AGENT,
            needs=frozenset({RunKind.AGENT.value}),
            idempotency=idempotency,
            actor=actor,
        )
        answer = await self._queue.submit(new)
        if isinstance(answer, QueueFull):
            raise refusal(answer)
        return answer.run


def _asked(agent: Agent) -> frozenset[str]:
    """Returns the ids of the calls that wait for a person, as the conversation was last kept. Pure."""
    if agent.conversation is None:
        return frozenset()
    pending = RunState.loads(agent.conversation).loop.pending
    return frozenset(one.call.id for one in pending if one.status == "approval")
