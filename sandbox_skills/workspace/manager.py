"""The workspace manager: stage a skill, open a session, run, collect, close; `async with` all the way."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import anyio.to_thread

from sandbox_skills.errors import SandboxSkillsError, ScriptNotFoundError
from sandbox_skills.spec import Collection, CollectLimits, Command, Limits, SandboxSpec
from sandbox_skills.workspace.commands import check_words, scripts_hint
from sandbox_skills.workspace.inputs import plan_inputs, put_inputs
from sandbox_skills.workspace.interpreters import read_head, script_argv
from sandbox_skills.workspace.layout import (
    DIRECTORIES,
    WORKSPACE_VARIABLES,
    run_directory,
    run_environment,
    skill_link,
    working_directory,
)
from sandbox_skills.workspace.outputs import check_out_dir, collect_outputs
from sandbox_skills.workspace.patterns import parse_patterns

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from pathlib import Path

    from sandbox_skills.catalog.pins import Pin
    from sandbox_skills.engines.base import Engine, OutputSink, Sandbox
    from sandbox_skills.spec import LimitName, Outcome
    from sandbox_skills.workspace.inputs import Input, PlannedInputs
    from sandbox_skills.workspace.outputs import CollectedFile
    from sandbox_skills.workspace.staging import SkillStore, StagedSkill


@dataclass(frozen=True, slots=True)
class Argv:
    """A program and its arguments, run as they are."""

    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Shell:
    """A command line for the box's `bash -c`, given to it as one argument."""

    text: str


@dataclass(frozen=True, slots=True)
class Script:
    """A script of the skill, by its path in it; the interpreter is chosen by extension, then shebang."""

    path: str
    args: tuple[str, ...] = ()


Invocation = Argv | Shell | Script


@dataclass(frozen=True, slots=True)
class RunRequest:
    """One run of a skill. Everything is checked before anything starts.

    `skill_name` is what SKILL_NAME says, the folder's name where it is empty. `outputs` are globs relative to the
    workspace; `out_dir` is where they are saved, None keeps them in memory.
    """

    invocation: Invocation
    skill_name: str = ""
    cwd: str = ""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    stdin: bytes | None = None
    inputs: tuple[Input, ...] = ()
    outputs: tuple[str, ...] = ()
    out_dir: Path | None = None
    limits: Limits | None = None
    collect: CollectLimits | None = None


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run did and what was collected of it.

    `skipped` are outputs that were left, and why. `limits_hit` has the limits of the run and of the collection.
    `notes` say what was not as the skill or the caller may expect.
    """

    run_id: str
    skill: str
    digest: str
    outcome: Outcome
    files: tuple[CollectedFile, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict[str, str])
    limits_hit: frozenset[LimitName] = frozenset()
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """Returns the one spelling of a result, for JSON."""
        return {
            "run_id": self.run_id,
            "skill": self.skill,
            "digest": self.digest,
            **self.outcome.as_dict(),
            "limits_hit": sorted(self.limits_hit),
            "files": [file.as_dict() for file in self.files],
            "skipped": dict(self.skipped),
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class ReadyRun:
    """A request that was checked, with all it comes to."""

    run_id: str
    skill: str
    staged: StagedSkill
    command: Command
    limits: Limits
    inputs: PlannedInputs
    patterns: tuple[str, ...]
    collect: CollectLimits
    out_dir: Path | None


class WorkspaceManager:
    """Opens sessions on an engine. Owns neither the engine nor the store: whoever made them closes them."""

    def __init__(
        self,
        engine: Engine,
        store: SkillStore,
        *,
        spec: SandboxSpec | None = None,
        limits: Limits | None = None,
        collect: CollectLimits | None = None,
    ) -> None:
        self._engine = engine
        self._store = store
        self._spec = spec or SandboxSpec()
        self._limits = limits or Limits()
        self._collect = collect or CollectLimits()

    async def stage(self, skill_dir: Path, *, tenant: str, pin: Pin | None = None) -> StagedSkill:
        """Copies a skill into the store, unless it is there.

        Raises SkillUnsafeError, and SkillChangedError where the copy is not what `pin` says.
        """
        return await self._store.stage(skill_dir, tenant=tenant, pin=pin)

    @asynccontextmanager
    async def session(self, *, tenant: str) -> AsyncGenerator[Session]:
        """Opens one workspace for runs of one tenant; leaving it ends the sandbox and all that was in it."""
        spec = replace(self._spec, tenant=tenant, run=secrets.token_hex(8))
        async with self._engine.open(spec) as sandbox:
            yield Session(self, sandbox, tenant=tenant)

    async def run(
        self,
        skill_dir: Path,
        request: RunRequest,
        *,
        tenant: str,
        pin: Pin | None = None,
        on_output: OutputSink | None = None,
    ) -> RunResult:
        """Stages a skill and runs it once in a sandbox of its own. A request that cannot be run starts none.

        Raises SkillChangedError where the skill is not what `pin` says.
        """
        staged = await self.stage(skill_dir, tenant=tenant, pin=pin)
        ready = await self.prepare(staged, request)
        async with self.session(tenant=tenant) as session:
            return await session.run_ready(ready, on_output=on_output)

    async def prepare(self, staged: StagedSkill, request: RunRequest) -> ReadyRun:
        """Checks a request against a staged skill; raises RequestError. Starts nothing and makes nothing."""
        if _reads_disk(request):
            return await anyio.to_thread.run_sync(self._prepare, staged, request)
        # A visit to a thread costs a tenth of a warm run.
        return self._prepare(staged, request)

    def _prepare(self, staged: StagedSkill, request: RunRequest) -> ReadyRun:
        run_id = secrets.token_hex(8)
        variables = {**WORKSPACE_VARIABLES, "RUN_DIR": str(run_directory(run_id))}
        name = request.skill_name or staged.name
        argv = self._argv(staged, request.invocation)
        check_words(argv)
        command = Command(
            argv=argv,
            env=run_environment(staged.box_path, skill_name=name, run_id=run_id, extra=request.env),
            cwd=working_directory(request.cwd, skill=staged.box_path, variables=variables),
            stdin=request.stdin,
        )
        if request.out_dir is not None and request.outputs:
            check_out_dir(request.out_dir)
        return ReadyRun(
            run_id=run_id,
            skill=name,
            staged=staged,
            command=command,
            limits=request.limits or self._limits,
            inputs=plan_inputs(request.inputs, max_bytes=self._spec.limits.workspace_bytes),
            patterns=parse_patterns(request.outputs, variables=variables),
            collect=request.collect or self._collect,
            out_dir=request.out_dir,
        )

    def _argv(self, staged: StagedSkill, invocation: Invocation) -> tuple[str, ...]:
        match invocation:
            case Argv(argv):
                return argv
            case Shell(text):
                return ("bash", "-c", text) if text.strip() else ()
            case Script(path, args):
                return script_argv(staged.box_path, path, args, self._head(staged, path))

    def _head(self, staged: StagedSkill, script: str) -> bytes:
        root = self._store.host_path(staged)
        try:
            return read_head(root, script)
        except ScriptNotFoundError as error:
            raise ScriptNotFoundError(error.message, hint=scripts_hint(root, script)) from error


def _reads_disk(request: RunRequest) -> bool:
    saves = request.out_dir is not None and bool(request.outputs)
    return isinstance(request.invocation, Script) or bool(request.inputs) or saves


class Session:
    """One workspace: the files of one sandbox, kept over its runs."""

    def __init__(self, manager: WorkspaceManager, sandbox: Sandbox, *, tenant: str) -> None:
        self._manager = manager
        self._tenant = tenant
        self.sandbox = sandbox

    async def stage(self, skill_dir: Path, *, pin: Pin | None = None) -> StagedSkill:
        """Copies a skill into the store, unless it is there; this session can run it at once.

        Raises SkillChangedError where the skill is not what `pin` says.
        """
        return await self._manager.stage(skill_dir, tenant=self._tenant, pin=pin)

    async def run(
        self, staged: StagedSkill, request: RunRequest, *, on_output: OutputSink | None = None
    ) -> RunResult:
        """Runs one command of a staged skill and collects its outputs.

        A command that fails is a result. Raises RequestError before anything is started, EngineError when the
        sandbox fails, OutputError and PathEscapeError when all is done but the outputs cannot be saved.
        """
        return await self.run_ready(await self._manager.prepare(staged, request), on_output=on_output)

    async def run_ready(self, ready: ReadyRun, *, on_output: OutputSink | None = None) -> RunResult:
        """Runs what `WorkspaceManager.prepare` has checked, once."""
        await put_inputs(self.sandbox, ready.inputs.files)
        # One round trip for both: a box takes up messages in the order in which they were begun.
        note, outcome = await asyncio.gather(
            self._make_places(ready),
            self.sandbox.run(ready.command, limits=ready.limits, on_output=on_output),
        )
        files: tuple[CollectedFile, ...] = ()
        collection = Collection()
        if ready.patterns and outcome.sandbox_lives:
            files, collection = await collect_outputs(
                self.sandbox, ready.patterns, ready.collect, ready.out_dir
            )
        return RunResult(
            run_id=ready.run_id,
            skill=ready.skill,
            digest=ready.staged.digest,
            outcome=outcome,
            files=files,
            skipped=collection.skipped,
            limits_hit=outcome.limits_hit | collection.limits_hit,
            notes=(*ready.staged.notes, *ready.inputs.notes, *note),
        )

    async def _make_places(self, ready: ReadyRun) -> tuple[str, ...]:
        """Makes what a run finds in its workspace; returns a note where an earlier run is in the way.

        That is no reason to refuse: in a full workspace the run may be there to make room. A box that is lost is
        told by the run.
        """
        link = {skill_link(ready.skill): ready.staged.box_path}
        try:
            await self.sandbox.prepare(dirs=[run_directory(ready.run_id), *DIRECTORIES], links=link)
        except SandboxSkillsError as error:
            return (f"the workspace could not be made ready: {error.message}",)
        return ()
