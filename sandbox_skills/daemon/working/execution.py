"""One run, once its turn has come: the skill found, judged by the policy, and run as the library runs it."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from sandbox_skills.daemon.access.limits import check_engine
from sandbox_skills.daemon.service.run_order import RunOrder, run_request
from sandbox_skills.daemon.service.runs import AcceptedRun
from sandbox_skills.daemon.working.endings import finished
from sandbox_skills.engines.cancellation import finish

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from sandbox_skills.daemon.service.runs import AcceptedRuns
    from sandbox_skills.daemon.service.sessions import SessionService
    from sandbox_skills.daemon.service.skills import OpenedSkill, SkillService
    from sandbox_skills.daemon.service.talks import Talks
    from sandbox_skills.daemon.service.tenant_tools import TenantTools
    from sandbox_skills.daemon.service.tools import ToolService
    from sandbox_skills.daemon.truth.run import Finished, Run
    from sandbox_skills.daemon.truth.tenants import Tenants
    from sandbox_skills.engines.base import OutputSink
    from sandbox_skills.spec import Limits
    from sandbox_skills.wiring import Live
    from sandbox_skills.workspace.interactive import InteractiveProgram
    from sandbox_skills.workspace.live_session import LiveSession
    from sandbox_skills.workspace.request import RunRequest
    from sandbox_skills.workspace.result import RunResult
    from sandbox_skills.workspace.session import Session

TOOL = "skill_run"
"""What the policy's rules by the name of the tool call a run that was asked for over HTTP."""


def _read(run: Run) -> AcceptedRun:
    """Returns what the row alone says of a run."""
    return AcceptedRun(RunOrder.model_validate(run.request), None, None)


@dataclass(frozen=True, slots=True)
class SkillExecution:
    """Does runs of skills. Owns nothing of what it works with."""

    live: Live
    tools: ToolService
    skills: SkillService
    tenants: Tenants
    sessions: SessionService
    talks: Talks
    accepted: AcceptedRuns
    usual: Limits
    """Of a run that asks for none."""

    async def __call__(self, run: Run, sink: OutputSink) -> Finished:
        """Returns how a run ended; raises RequestError where nothing was started, EngineError as the library does.

        A cancel kills the program and whatever came of it.
        """
        known = self.accepted.take(run.id) or _read(run)
        tools = await self.tools.tools_for(known.tenant or await self.tenants.get(run.tenant_id))
        order = known.order
        async with self._skill(run, order, known.skill) as skill:
            request = self._judged(order, skill, tools)
            return finished(await self._run(run, order, skill, request, sink))

    def _skill(
        self, run: Run, order: RunOrder, known: OpenedSkill | None
    ) -> AbstractAsyncContextManager[OpenedSkill]:
        """Gives the skill of a run, as it was when the run was accepted, or as it is now where that was long ago."""
        if known is not None:
            return nullcontext(known)
        pinned = partial(self.tools.demanded, asked=order.skill)
        return self.skills.accepted(run.skill, tenant=run.tenant_id, pinned=pinned)

    def _judged(self, order: RunOrder, skill: OpenedSkill, tools: TenantTools) -> RunRequest:
        """Returns what is run: within the limits of the server, the tenant and the policy; raises PolicyError."""
        request = run_request(order, self.usual)
        check_engine(tools.limits, self.live.settings.engine)  # an admin may have said so while it waited
        return tools.runs.granted(
            skill.spec,
            request,
            tenant=tools.tenant.id,
            tool=TOOL,
            asked=order.ceilings,
        )

    async def _run(
        self, run: Run, order: RunOrder, skill: OpenedSkill, request: RunRequest, sink: OutputSink
    ) -> RunResult:
        if run.session_id is not None:
            session = await self.sessions.opened(run.session_id, tenant=run.tenant_id)
            return await self._run_in(session, run, order, skill, request, sink)
        if not order.talks:
            return await self.live.manager.run(
                skill.folder, request, tenant=run.tenant_id, pin=skill.pin, on_output=sink
            )
        async with self.live.manager.session(tenant=run.tenant_id, name=run.id) as own:
            return await self._run_in(own, run, order, skill, request, sink)

    async def _run_in(
        self,
        session: LiveSession | Session,
        run: Run,
        order: RunOrder,
        skill: OpenedSkill,
        request: RunRequest,
        sink: OutputSink,
    ) -> RunResult:
        """Runs in a workspace that lasts, or in one of its own."""
        staged = await session.stage(skill.folder, pin=skill.pin, name=skill.spec.name)
        if not order.talks:
            return await session.run(staged, request, on_output=sink)
        program = await session.start_program(staged, request, tty=order.terminal, sink=sink)
        return await self._talk(run.id, program)

    async def _talk(self, run_id: str, program: InteractiveProgram[RunResult]) -> RunResult:
        """Lets a program be talked to until it ends; returns what came of it."""
        with self.talks.open(run_id, program):
            try:
                return await program.result()
            finally:
                await finish(program.kill())
