"""One workspace and what a run in it goes through: inputs, places, the command, outputs, the report."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from sandbox_skills.spec import Exited, Places, Stopped
from sandbox_skills.telemetry import annotate, span
from sandbox_skills.workspace.editor import editor_files
from sandbox_skills.workspace.execution import unattended
from sandbox_skills.workspace.hints import hints
from sandbox_skills.workspace.in_box import private_copy
from sandbox_skills.workspace.input_plan import NO_INPUTS
from sandbox_skills.workspace.input_stage import stage_inputs
from sandbox_skills.workspace.interactive import InteractivePrograms
from sandbox_skills.workspace.layout import DIRECTORIES, SKILLS_DIR, run_directory, skill_link
from sandbox_skills.workspace.memory import WorkspaceMemory
from sandbox_skills.workspace.outputs import collect_outputs, told_files
from sandbox_skills.workspace.report import OutputReport, Saving, counted, reported, save_outputs
from sandbox_skills.workspace.result import RunResult
from sandbox_skills.workspace.run_audit import audited
from sandbox_skills.workspace.snapshot import restore_snapshot, take_snapshot

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from sandbox_skills.catalog.pins import Pin
    from sandbox_skills.engines.base import OutputSink, Sandbox
    from sandbox_skills.spec import Collection, Ending, Outcome, TerminalSize
    from sandbox_skills.workspace.choices import SnapshotLimits
    from sandbox_skills.workspace.execution import Execution
    from sandbox_skills.workspace.inputs import StagedInput
    from sandbox_skills.workspace.interactive import InteractiveProgram
    from sandbox_skills.workspace.manager import WorkspaceManager
    from sandbox_skills.workspace.output_spec import OutputPlan
    from sandbox_skills.workspace.outputs import CollectedFile
    from sandbox_skills.workspace.ready import ReadyRun
    from sandbox_skills.workspace.request import RunRequest
    from sandbox_skills.workspace.run_audit import AuditedRun
    from sandbox_skills.workspace.snapshot import Snapshot
    from sandbox_skills.workspace.staging import StagedSkill


class Session:
    """One workspace: the files of one sandbox, kept over its runs. `name` is what audit events call it.

    `programs` are the interactive ones: found by their ids, killed, and ended with the session. `fresh` is whether the
    workspace still has what the box began with.
    """

    def __init__(self, manager: WorkspaceManager, sandbox: Sandbox, *, tenant: str, name: str = "") -> None:
        self._manager = manager
        self._tenant = tenant
        self.name = name
        self.sandbox = sandbox
        self.memory = WorkspaceMemory()
        self.fresh = True
        self.programs = InteractivePrograms[RunResult](sandbox)

    async def stage(self, skill_dir: Path, *, pin: Pin | None = None, name: str = "") -> StagedSkill:
        """Copies a skill into the store, unless it is there; this session can run it at once.

        Inputs may name its files from now on, by the folder's name and by `name`, and runs of no skill find a link to
        it. Raises SkillChangedError where the skill is not what `pin` says.
        """
        staged = await self._manager.stage(skill_dir, tenant=self._tenant, pin=pin)
        self._manager.remember(staged, self.memory, name)
        return staged

    async def run(
        self, staged: StagedSkill | None, request: RunRequest, *, on_output: OutputSink | None = None
    ) -> RunResult:
        """Runs one command of a staged skill, or of none in the workspace itself, and collects its outputs.

        A command that fails is a result. Raises RequestError before the command is started, EngineError when the
        sandbox fails, OutputError when all is done but the host cannot keep an output.
        """
        return await self.run_by(unattended(self.sandbox, on_output), staged, request)

    async def start_program(
        self,
        staged: StagedSkill | None,
        request: RunRequest,
        *,
        tty: TerminalSize | None = None,
        sink: OutputSink | None = None,
    ) -> InteractiveProgram[RunResult]:
        """Starts one command of a staged skill to talk to; once it has ended, or was killed, its result is there.

        It is a run with a run's limits, whose input is `request.stdin` and then what is written; `sink` hears its
        output live. Raises as `run` does where it cannot be started, QuotaError for one program too many; what a
        run would raise later, polls do.
        """

        async def life(program: InteractiveProgram[RunResult]) -> RunResult:
            execution = partial(program.run_in, self.sandbox)
            return await self.run_by(execution, staged, request, interactive=True)

        return await self.programs.launch(life, tty=tty, sink=sink)

    async def run_by(
        self,
        execution: Execution,
        staged: StagedSkill | None,
        request: RunRequest,
        *,
        interactive: bool = False,
    ) -> RunResult:
        """Runs as `run` does, by an execution in this session's sandbox; `interactive` is written down."""
        audit = self._manager.services.audit
        with audited(audit, request, tenant=self._tenant, session=self.name, interactive=interactive) as run:
            run.staged, run.seccomp = staged, self.sandbox.seccomp
            ready = await self._manager.check(staged, request, self.memory, tenant=self._tenant)
            return await self.execute(execution, run, ready)

    async def run_ready(self, ready: ReadyRun, *, on_output: OutputSink | None = None) -> RunResult:
        """Runs what `WorkspaceManager.prepare` has checked, once. Raises as `run` does."""
        audit = self._manager.services.audit
        with audited(audit, ready.request, tenant=self._tenant, session=self.name) as run:
            run.staged, run.seccomp = ready.staged, self.sandbox.seccomp
            return await self.execute(unattended(self.sandbox, on_output), run, ready)

    async def snapshot(self, path: Path, *, limits: SnapshotLimits | None = None) -> Snapshot:
        """Writes the workspace's files to a tar at `path` as `take_snapshot` does, with what is remembered of them."""
        taken = await take_snapshot(self.sandbox, path, tenant=self._tenant, limits=limits)
        return replace(taken, memory=self.memory.for_another_box())

    async def restore(self, snapshot: Snapshot, *, limits: SnapshotLimits | None = None) -> None:
        """Goes on from a snapshot, in a workspace that is new; raises as `restore_snapshot` does.

        What its files may hold of secrets, and who may have left them, counts here as it did there.
        """
        await restore_snapshot(self.sandbox, snapshot, tenant=self._tenant, limits=limits)
        self.memory = snapshot.memory.for_another_box()
        self.fresh = False

    async def execute(self, execution: Execution, run: AuditedRun, ready: ReadyRun) -> RunResult:
        """Runs what was checked and tells `run` how far it came; whoever made `run` writes it down."""
        run.ready = ready
        with ready.redaction.of_errors():
            self.memory.grants.admit(_digest(ready), grants=bool(ready.request.grants))
            staged = await self._bring(ready) if _brings(ready.request) else ()
            command = ready.command.finding(self._places(ready))
            with span("workspace.run", **_about(ready)) as current:
                outcome = await execution(command, limits=ready.limits, redaction=ready.redaction)
                run.outcome = outcome
                if current.is_recording():
                    printed = outcome.stdout_bytes + outcome.stderr_bytes
                    annotate(current, ending=_ending_text(outcome.ending), bytes=printed)
            run.result = await self._settle(ready, outcome, staged=staged)
        return run.result

    async def _settle(
        self,
        ready: ReadyRun,
        outcome: Outcome,
        *,
        staged: tuple[StagedInput, ...] = (),
    ) -> RunResult:
        """Returns what comes of a command that has ended: its outputs collected, reported and saved as asked."""
        files: tuple[CollectedFile, ...] = ()
        skipped: Mapping[str, str] = {}
        hit, report = outcome.limits_hit, None
        if ready.patterns and outcome.sandbox_lives and not outcome.found_nothing:
            files, collection = told_files(*await self._collected(ready), ready.redaction)
            skipped, hit = collection.skipped, hit | collection.limits_hit
        if ready.plan is not None:
            files, report = await self._reported(ready, ready.plan, outcome, files)
        return RunResult(
            run_id=ready.run_id,
            skill=ready.skill,
            digest=_digest(ready),
            outcome=outcome,
            files=files,
            skipped=skipped,
            limits_hit=hit,
            notes=(*_notes(ready), *ready.warnings, *_unprepared(outcome)),
            staged_inputs=staged,
            hints=hints(outcome),
            report=report,
        )

    async def _bring(self, ready: ReadyRun) -> tuple[StagedInput, ...]:
        """Puts into the workspace what the request brings. Raises RequestError, EngineError."""
        request = ready.request
        with span("workspace.stage.inputs", **_about(ready)) as current:
            if request.writable_skill:
                await self._copy_skill(ready)
            if request.editor_text:
                for path, content, mode in editor_files(request.editor_text):
                    await self.sandbox.put(path, _once(content), mode=mode)
            artifacts = self._manager.services.artifacts
            staged = await stage_inputs(self.sandbox, ready.inputs, artifacts, tenant=self._tenant)
            annotate(current, bytes=sum(row.size_bytes for row in staged))
        return staged

    async def _copy_skill(self, ready: ReadyRun) -> None:
        """Makes the private copy; what an earlier run of the same skill changed in its own stays."""
        assert ready.staged is not None
        assert ready.root is not None
        copies, digest = self.memory.copies, ready.staged.digest
        keep = copies.pop(ready.root, None) == digest
        await self.sandbox.prepare(dirs=[SKILLS_DIR])
        await private_copy(self.sandbox, ready.staged.box_path, ready.root, keep=keep)
        copies[ready.root] = digest

    def _places(self, ready: ReadyRun) -> Places:
        """Returns what a run finds in its workspace; a box that has run nothing yet has all but the run's own."""
        own, usual = run_directory(ready.run_id), () if self.fresh else _USUAL
        self.fresh = False
        return Places((own, *usual), self._links(ready))

    def _links(self, ready: ReadyRun) -> dict[str, str]:
        """Returns the links to skills that a run finds: to its own one; one of no skill finds all that were staged."""
        if ready.staged is None:
            return self.memory.links()
        if ready.request.writable_skill:
            return {}
        return {str(skill_link(ready.skill)): str(ready.staged.box_path)}

    async def _collected(self, ready: ReadyRun) -> tuple[tuple[CollectedFile, ...], Collection]:
        with span("workspace.collect", **_about(ready)) as current:
            found = await collect_outputs(
                self.sandbox,
                ready.patterns,
                ready.collect,
                ready.request.out_dir,
                overwrite=ready.request.overwrite,
            )
            annotate(current, files=len(found[0]), bytes=sum(file.size for file in found[0]))
        return found

    async def _reported(
        self, ready: ReadyRun, plan: OutputPlan, outcome: Outcome, files: tuple[CollectedFile, ...]
    ) -> tuple[tuple[CollectedFile, ...], OutputReport]:
        """Returns the files that count and what is told of them, saved where that was asked for."""
        with span("workspace.inline", **_about(ready)) as current:
            files, warnings = counted(files, outcome)
            told = (*ready.warnings, *warnings)
            report = await reported(files, plan, warnings=told, redaction=ready.redaction)
            saving = Saving(
                self._manager.services.artifacts,
                self._tenant,
                ready.skill,
                _digest(ready),
                ready.run_id,
            )
            report = await save_outputs(files, plan, report, saving)
            annotate(current, files=len(report.output_files), saved=len(report.artifacts))
            if current.is_recording():  # megabytes would be counted for nobody
                annotate(current, bytes=sum(len(file.content.encode()) for file in report.output_files))
        return files, report


_USUAL = tuple(map(str, DIRECTORIES))


def _brings(request: RunRequest) -> bool:
    """Whether a request puts anything into the workspace; most do not."""
    return bool(request.inputs or request.editor_text or request.writable_skill)


def _about(ready: ReadyRun) -> dict[str, str]:
    return {"skill": ready.skill, "digest": _digest(ready)}


def _digest(ready: ReadyRun) -> str:
    """Returns the digest of the run's skill, empty without one: so no skill's run shares a box with secrets either."""
    return "" if ready.staged is None else ready.staged.digest


def _notes(ready: ReadyRun) -> tuple[str, ...]:
    """Returns what was not as the caller may expect, in the skill and in the inputs."""
    staged = () if ready.staged is None else ready.staged.notes
    return staged if ready.inputs is NO_INPUTS else (*staged, *ready.inputs.notes)


def _unprepared(outcome: Outcome) -> tuple[str, ...]:
    """Returns a note where something is in the way of what a run is to find in its workspace.

    That is no reason to refuse: in a full workspace the run may be there to make room.
    """
    return (f"the workspace could not be made ready: {outcome.unprepared}",) if outcome.unprepared else ()


def _ending_text(ending: Ending) -> str:
    match ending:
        case Exited(code):
            return f"exited {code}"
        case Stopped(reason):
            return f"stopped {reason}"
        case _:
            return f"signalled {ending.signal}"


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content
