"""One leg of a conversation: the controller drives the model and the tenant's tools, until it is done or waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from anyio import to_thread

from sandbox_skills.controller.controller import Decisions
from sandbox_skills.controller.events import Done
from sandbox_skills.controller.hooks import Hooks
from sandbox_skills.controller.state import RunState
from sandbox_skills.daemon.access.limits import check_engine, tenant_limits
from sandbox_skills.daemon.service.tools import conversation_id
from sandbox_skills.daemon.truth.agents import Word
from sandbox_skills.daemon.truth.run import Finished
from sandbox_skills.toolsets.base import Conversation
from sandbox_skills.wiring import controller, model_client

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sandbox_skills.controller.events import RunEvent
    from sandbox_skills.controller.result import RunResult
    from sandbox_skills.daemon.service.agent_models import AgentModels
    from sandbox_skills.daemon.service.tools import ToolService
    from sandbox_skills.daemon.truth.agents import Agent, Agents
    from sandbox_skills.daemon.truth.run import Run
    from sandbox_skills.settings import Settings

    Voice = Callable[[RunEvent], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class AgentWork:
    """Does legs of conversations. Owns nothing of what it works with."""

    settings: Settings
    agents: Agents
    tools: ToolService
    models: AgentModels

    async def __call__(self, run: Run, voice: Voice) -> Finished:
        """Returns how a leg ended; raises ModelError, RequestError, EngineError.

        A cancel ends the model's answer and its calls, and keeps the conversation so that it can go on.
        """
        agent = await self.agents.of_run(run)
        result = await self._leg(agent, voice)
        while (decided := await self._decided(agent.id, result)) is not None:
            result = await self._leg(decided, voice)
        return Finished({"type": "exited", "code": 0}, result.as_dict())

    async def _decided(self, agent_id: str, result: RunResult) -> Agent | None:
        """Returns the conversation as it goes on, None where nothing was said of a call that waits."""
        agent = await self.agents.get(agent_id)
        if result.waiting and agent.request["approvals"] == "never":
            for call in result.waiting:
                agent = await self.agents.decide(agent_id, Word(call.id, approved=True))
        waiting = {call.id for call in result.waiting}
        return agent if any(word.call_id in waiting for word in agent.words) else None

    async def _leg(self, agent: Agent, voice: Voice) -> RunResult:
        session_id = agent.request["session_id"]
        if session_id:
            await self.tools.wake(session_id, tenant=agent.tenant_id)
        if agent.conversation is None:
            talk = conversation_id(session_id) if session_id else f"agent-{agent.id}"
            state = RunState(Conversation(talk, agent.tenant_id))
        else:
            state = RunState.loads(agent.conversation)
        if not session_id:
            await self.tools.take_over("", state.conversation)
        words = {word.call_id: word for word in agent.words}
        what = agent.input if agent.input is not None else _decisions(agent)

        async def save(now: RunState) -> None:
            await self.agents.save(agent.id, now.dumps(), used=words.keys())

        return await self._driven(agent, what, state, Hooks(save=save), voice)

    async def _driven(
        self, agent: Agent, what: str | Decisions, state: RunState, hooks: Hooks, voice: Voice
    ) -> RunResult:
        request, tools = agent.request, await self.tools.tools_of(agent.tenant_id)
        limits = tenant_limits(tools.tenant.limits)
        check_engine(limits, self.settings.engine)  # an admin may have said so while it waited
        chosen = self.settings.replaced(model=self.models.chosen(request["model"], limits))
        toolbox = await to_thread.run_sync(tools.toolbox, tuple(request["toolsets"]))
        result: RunResult | None = None
        async with model_client(chosen) as client:
            made = controller(
                chosen, client, toolbox=toolbox, hooks=hooks, instructions=request["instructions"]
            )
            async with made.stream(what, state) as events:
                # What was said is kept before the model hears of it.
                if hooks.save is not None:
                    await hooks.save(events.state)
                async for event in events:
                    await voice(event)
                    if isinstance(event, Done):
                        result = event.result
        assert result is not None
        return result


def _decisions(agent: Agent) -> Decisions:
    return Decisions(
        tuple(word.call_id for word in agent.words if word.approved),
        {word.call_id: word.reason for word in agent.words if not word.approved},
    )
