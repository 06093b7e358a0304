"""The workspace manager: stage a skill, open a session, run, collect, close; `async with` all the way."""

from __future__ import annotations

import secrets
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import anyio.to_thread

from sandbox_skills.errors import CommandError
from sandbox_skills.spec import Collection, CollectLimits, Command, Limits, SandboxSpec
from sandbox_skills.workspace.inputs import plan_inputs, put_inputs
from sandbox_skills.workspace.interpreters import read_head, script_argv
from sandbox_skills.workspace.layout import (
    WORKSPACE_VARIABLES,
    run_directory,
    run_environment,
    skill_link,
    working_directory,
)
from sandbox_skills.workspace.outputs import collect_outputs
from sandbox_skills.workspace.patterns import parse_patterns

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from sandbox_skills.engines.base import Engine, OutputSink, Sandbox
    from sandbox_skills.spec import LimitName, Outcome
    from sandbox_skills.workspace.inputs import Input, PlannedFile
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
    """What a run did and what was collected of it. `skipped` are outputs that were left, and why."""

    run_id: str
    skill: str
    digest: str
    outcome: Outcome
    files: tuple[CollectedFile, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict[str, str])
    limits_hit: frozenset[LimitName] = frozenset()

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
        }


@dataclass(frozen=True, slots=True)
class ReadyRun:
    """A request that was checked, with all it comes to."""

    run_id: str
    skill: str
    staged: StagedSkill
    command: Command
    limits: Limits
    inputs: tuple[PlannedFile, ...]
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

    async def stage(self, skill_dir: Path, *, tenant: str) -> StagedSkill:
        """Copies a skill into the store, unless it is there; raises SkillUnsafeError."""
        return await self._store.stage(skill_dir, tenant=tenant)

    @asynccontextmanager
    async def session(self, *, tenant: str) -> AsyncIterator[Session]:
        """Opens one workspace for runs of one tenant; leaving it ends the sandbox and all that was in it."""
        spec = replace(self._spec, tenant=tenant, run=secrets.token_hex(8))
        async with self._engine.open(spec) as sandbox:
            yield Session(self, sandbox, tenant=tenant)

    async def run(
        self, skill_dir: Path, request: RunRequest, *, tenant: str, on_output: OutputSink | None = None
    ) -> RunResult:
        """Stages a skill and runs it once in a sandbox of its own. A request that cannot be run starts none."""
        staged = await self.stage(skill_dir, tenant=tenant)
        ready = await self.prepare(staged, request)
        async with self.session(tenant=tenant) as session:
            return await session.run_ready(ready, on_output=on_output)

    async def prepare(self, staged: StagedSkill, request: RunRequest) -> ReadyRun:
        """Checks a request and looks at the files it names; raises RequestError for anything that cannot be."""
        return await anyio.to_thread.run_sync(self._prepare, staged, request)

    def _prepare(self, staged: StagedSkill, request: RunRequest) -> ReadyRun:
        run_id = secrets.token_hex(8)
        variables = {**WORKSPACE_VARIABLES, "RUN_DIR": str(run_directory(run_id))}
        name = request.skill_name or staged.name
        command = Command(
            argv=self._argv(staged, request.invocation),
            env=run_environment(staged.box_path, skill_name=name, run_id=run_id, extra=request.env),
            cwd=working_directory(request.cwd, skill=staged.box_path, variables=variables),
            stdin=request.stdin,
        )
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
                if not argv or not argv[0]:
                    raise CommandError("the command is empty", hint="give a program and its arguments")
                if any("\0" in word for word in argv):
                    raise CommandError("the command contains a NUL")
                return argv
            case Shell(text):
                if not text.strip() or "\0" in text:
                    raise CommandError("the command is empty or contains a NUL", hint="give a command line")
                return ("bash", "-c", text)
            case Script(path, args):
                return script_argv(
                    staged.box_path, path, args, read_head(self._store.host_path(staged), path)
                )


class Session:
    """One workspace: the files of one sandbox, kept over its runs."""

    def __init__(self, manager: WorkspaceManager, sandbox: Sandbox, *, tenant: str) -> None:
        self._manager = manager
        self._tenant = tenant
        self.sandbox = sandbox

    async def stage(self, skill_dir: Path) -> StagedSkill:
        """Copies a skill into the store, unless it is there; this session can run it at once."""
        return await self._manager.stage(skill_dir, tenant=self._tenant)

    async def run(
        self, staged: StagedSkill, request: RunRequest, *, on_output: OutputSink | None = None
    ) -> RunResult:
        """Runs one command of a staged skill and collects its outputs.

        A command that fails is a result. Raises RequestError before anything is started, EngineError when the
        sandbox fails.
        """
        return await self.run_ready(await self._manager.prepare(staged, request), on_output=on_output)

    async def run_ready(self, ready: ReadyRun, *, on_output: OutputSink | None = None) -> RunResult:
        """Runs what `WorkspaceManager.prepare` has checked, once."""
        link = {skill_link(ready.skill): ready.staged.box_path}
        await self.sandbox.prepare(dirs=[run_directory(ready.run_id)], links=link)
        await put_inputs(self.sandbox, ready.inputs)
        outcome = await self.sandbox.run(ready.command, limits=ready.limits, on_output=on_output)
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
        )
