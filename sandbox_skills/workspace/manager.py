"""The workspace manager: stage a skill, open a session, run, collect, close; `async with` all the way."""

from __future__ import annotations

import secrets
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import anyio.to_thread

from sandbox_skills.spec import CollectLimits, Limits, SandboxSpec
from sandbox_skills.telemetry import NOTHING, Redaction, annotate, span
from sandbox_skills.workspace.execution import unattended
from sandbox_skills.workspace.input_plan import InputContext, plan_run_inputs
from sandbox_skills.workspace.memory import WorkspaceMemory
from sandbox_skills.workspace.ready import ReadyRun, RunRules, reads_disk, ready_run
from sandbox_skills.workspace.request import Argv, Invocation, RunRequest, Script, Shell
from sandbox_skills.workspace.result import RunResult
from sandbox_skills.workspace.run_audit import audited
from sandbox_skills.workspace.session import Session

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from pathlib import Path

    from sandbox_skills.artifacts import ArtifactStore
    from sandbox_skills.catalog.pins import Pin
    from sandbox_skills.engines.base import Engine, OutputSink
    from sandbox_skills.telemetry import AuditLog
    from sandbox_skills.workspace.staging import SkillStore, StagedSkill

__all__ = [
    "Argv",
    "Invocation",
    "ReadyRun",
    "RunRequest",
    "RunResult",
    "RunRules",
    "Script",
    "Services",
    "Session",
    "Shell",
    "WorkspaceManager",
]


@dataclass(frozen=True, slots=True)
class Services:
    """What stands beside the engine: where outputs are saved, and where runs are written down. None: nowhere.

    `redaction` takes out what no run may show, beside the secrets that it was granted itself: what one run was granted
    and wrote into a file, another may print.
    """

    artifacts: ArtifactStore | None = None
    audit: AuditLog | None = None
    redaction: Redaction = NOTHING


class WorkspaceManager:
    """Opens sessions on an engine. Owns neither the engine nor the store: whoever made them closes them.

    `limits` and `collect` are the usual ones, in place of those of `rules`.
    """

    def __init__(
        self,
        engine: Engine,
        store: SkillStore,
        *,
        spec: SandboxSpec | None = None,
        limits: Limits | None = None,
        collect: CollectLimits | None = None,
        rules: RunRules | None = None,
        services: Services | None = None,
    ) -> None:
        self._engine = engine
        self._store = store
        self.spec = spec or SandboxSpec()
        self.services = services or Services()
        rules = rules or RunRules()
        room = self.spec.limits.workspace_bytes
        most = replace(rules.inputs.limits, total_bytes=min(rules.inputs.limits.total_bytes, room))
        self._rules = replace(
            rules,
            limits=limits or rules.limits,
            collect=collect or rules.collect,
            inputs=replace(rules.inputs, limits=most),
        )

    async def stage(self, skill_dir: Path, *, tenant: str, pin: Pin | None = None) -> StagedSkill:
        """Copies a skill into the store, unless it is there.

        Raises SkillUnsafeError, and SkillChangedError where the copy is not what `pin` says.
        """
        with span("workspace.stage.skill") as current:
            staged = await self._store.stage(skill_dir, tenant=tenant, pin=pin)
            annotate(current, skill=staged.name, digest=staged.digest, bytes=staged.bytes)
            return staged

    @asynccontextmanager
    async def session(self, *, tenant: str, name: str = "") -> AsyncGenerator[Session]:
        """Opens one workspace for runs of one tenant; leaving it ends the sandbox and all that was in it.

        `name` is what audit events call the session, a random word where it is empty.
        """
        spec = replace(self.spec, tenant=tenant, run=secrets.token_hex(8))
        async with AsyncExitStack() as stack:
            with span("workspace.create"):
                sandbox = await stack.enter_async_context(self._engine.open(spec))
            session = Session(self, sandbox, tenant=tenant, name=name or spec.run)
            await stack.enter_async_context(session.programs)
            try:
                yield session
            finally:
                with span("workspace.cleanup"):
                    await stack.aclose()

    async def run(
        self,
        skill_dir: Path,
        request: RunRequest,
        *,
        tenant: str,
        pin: Pin | None = None,
        on_output: OutputSink | None = None,
        on_phase: Callable[[str], None] | None = None,
    ) -> RunResult:
        """Stages a skill and runs it once in a sandbox of its own. A request that cannot be run starts none.

        `on_phase` is told what is going on, in a few words. Raises SkillChangedError where the skill is not what
        `pin` says.
        """
        say = on_phase or _silent
        with audited(self.services.audit, request, tenant=tenant, skill=skill_dir.name) as run:
            run.staged = await self.stage(skill_dir, tenant=tenant, pin=pin)
            run.ready = await self.check(run.staged, request, WorkspaceMemory(), tenant=tenant)
            say("starting a sandbox")
            async with self.session(tenant=tenant) as session:
                say("running")
                execution = unattended(session.sandbox, on_output)
                return await session.execute(execution, run, run.ready)

    async def prepare(self, staged: StagedSkill, request: RunRequest, *, tenant: str) -> ReadyRun:
        """Checks a request against a staged skill, for a session without a past; raises RequestError.

        Starts nothing and makes nothing. A refusal is written down.
        """
        with audited(self.services.audit, request, tenant=tenant) as run:
            run.staged = staged
            ready = await self.check(staged, request, WorkspaceMemory(), tenant=tenant)
            run.elsewhere = True
            return ready

    def remember(self, staged: StagedSkill, memory: WorkspaceMemory, name: str = "") -> None:
        """Notes a staged skill in a session's memory, under its folder's name and another that it goes by."""
        memory.remember(staged, self._store.host_path(staged), name)

    async def check(
        self, staged: StagedSkill | None, request: RunRequest, memory: WorkspaceMemory, *, tenant: str
    ) -> ReadyRun:
        """Checks as `prepare` does, for a session that remembers `memory`; writes nothing down.

        `staged` None is a run of no skill.
        """
        redaction = self.services.redaction
        if request.grants:
            redaction = redaction.adding(request.grants.values())
        if not redaction:
            return await self._checked(staged, request, memory, tenant=tenant)
        with redaction.of_errors():
            ready = await self._checked(staged, request, memory, tenant=tenant)
        return replace(ready, redaction=redaction)

    async def _checked(
        self, staged: StagedSkill | None, request: RunRequest, memory: WorkspaceMemory, *, tenant: str
    ) -> ReadyRun:
        host = None if staged is None else self._store.host_path(staged)
        # A visit to a thread costs a tenth of a warm run.
        if reads_disk(request):
            ready = await anyio.to_thread.run_sync(ready_run, staged, host, request, self._rules)
        else:
            ready = ready_run(staged, host, request, self._rules)
        if staged is not None:
            assert host is not None
            memory.remember(staged, host, ready.skill)
        if not request.inputs:
            return ready
        context = InputContext(
            self._rules.inputs, tenant, self.services.artifacts, memory.skills, memory.pins
        )
        return replace(ready, inputs=await plan_run_inputs(request.inputs, context))


def _silent(_phase: str) -> None:
    return None
