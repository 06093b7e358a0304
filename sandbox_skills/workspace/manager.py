"""The workspace manager: stage a skill, open a session, run, collect, close; `async with` all the way."""

from __future__ import annotations

import secrets
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import anyio.to_thread

from sandbox_skills.errors import CommandError, ScriptNotFoundError
from sandbox_skills.spec import Command, CollectLimits, Limits, SandboxSpec
from sandbox_skills.workspace import inputs as host_inputs
from sandbox_skills.workspace.interpreters import script_argv
from sandbox_skills.workspace.layout import (
    WORKSPACE_VARIABLES,
    run_directory,
    run_environment,
    skill_link,
    working_directory,
)
from sandbox_skills.workspace.outputs import CollectedFile, DirectorySink, MemorySink
from sandbox_skills.workspace.patterns import parse_patterns

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from sandbox_skills.engines.base import Engine, OutputSink, Sandbox
    from sandbox_skills.spec import Collection, LimitName, Outcome
    from sandbox_skills.workspace.inputs import Input
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

    `outputs` are globs relative to the workspace; `out_dir` is where they are saved, None keeps them in memory.
    """

    invocation: Invocation
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
        session_id = secrets.token_hex(8)
        spec = replace(self._spec, tenant=tenant, run=session_id)
        async with self._engine.open(spec) as sandbox:
            yield Session(self, sandbox, tenant=tenant, spec=spec, limits=self._limits, collect=self._collect)

    async def run(
        self, skill_dir: Path, request: RunRequest, *, tenant: str, on_output: OutputSink | None = None
    ) -> RunResult:
        """Stages a skill and runs it once in a sandbox of its own."""
        staged = await self.stage(skill_dir, tenant=tenant)
        # A request that cannot be run starts no sandbox; the session looks once more with its own run id.
        await anyio.to_thread.run_sync(partial(prepare, staged, request, "check", max_bytes=self._max_input_bytes))
        async with self.session(tenant=tenant) as session:
            return await session.run(staged, request, on_output=on_output)


class Session:
    """One workspace: the files of one sandbox, kept over its runs."""

    def __init__(
        self,
        manager: WorkspaceManager,
        sandbox: Sandbox,
        *,
        tenant: str,
        spec: SandboxSpec,
        limits: Limits,
        collect: CollectLimits,
    ) -> None:
        self._manager = manager
        self._tenant = tenant
        self._spec = spec
        self._limits = limits
        self._collect = collect
        self.sandbox = sandbox

    async def stage(self, skill_dir: Path) -> StagedSkill:
        """Copies a skill into the store, unless it is there; it is visible to this session at once."""
        return await self._manager.stage(skill_dir, tenant=self._tenant)

    async def run(
        self, staged: StagedSkill, request: RunRequest, *, on_output: OutputSink | None = None
    ) -> RunResult:
        """Runs one command of a staged skill and collects its outputs.

        A command that fails is a result. Raises RequestError before anything is started, EngineError when the
        sandbox fails.
        """
        run_id = secrets.token_hex(8)
        ready = prepare(staged, request, run_id, max_bytes=self._spec.limits.workspace_bytes)
        await self.sandbox.prepare(dirs=[run_directory(run_id)], links={skill_link(staged.name): staged.box_path})
        await host_inputs.put(self.sandbox, ready.inputs)
        outcome = await self.sandbox.run(
            ready.command, limits=request.limits or self._limits, on_output=on_output
        )
        files: tuple[CollectedFile, ...] = ()
        collection: Collection | None = None
        if ready.patterns and outcome.sandbox_lives:
            files, collection = await self._collected(ready.patterns, request)
        return RunResult(
            run_id=run_id,
            skill=staged.name,
            digest=staged.digest,
            outcome=outcome,
            files=files,
            skipped=collection.skipped if collection else {},
            limits_hit=outcome.limits_hit | (collection.limits_hit if collection else frozenset()),
        )

    async def _collected(
        self, patterns: tuple[str, ...], request: RunRequest
    ) -> tuple[tuple[CollectedFile, ...], Collection]:
        limits = request.collect or self._collect
        if request.out_dir is None:
            memory = MemorySink()
            collection = await self.sandbox.collect(patterns, limits, memory)
            return tuple(memory.files), collection
        directory = DirectorySink(request.out_dir)
        try:
            collection = await self.sandbox.collect(patterns, limits, directory)
        finally:
            directory.abandon()
        return tuple(directory.files), collection


@dataclass(frozen=True, slots=True)
class Ready:
    """A request that was checked and can be run."""

    command: Command
    patterns: tuple[str, ...]
    inputs: tuple[host_inputs.PlannedFile, ...]


def prepare(staged: StagedSkill, request: RunRequest, run_id: str, *, max_bytes: int) -> Ready:
    """Returns what a request comes to; raises RequestError for anything in it that cannot be."""
    variables = {**WORKSPACE_VARIABLES, "RUN_DIR": str(run_directory(run_id))}
    command = Command(
        argv=_argv(staged, request.invocation),
        env=run_environment(staged.box_path, skill_name=staged.name, run_id=run_id, extra=request.env),
        cwd=working_directory(request.cwd, skill=staged.box_path, variables=variables),
        stdin=request.stdin,
    )
    return Ready(
        command=command,
        patterns=parse_patterns(request.outputs, variables=variables),
        inputs=host_inputs.plan(request.inputs, max_bytes=max_bytes),
    )
