"""A request checked against a staged skill, with all it comes to. Starts nothing and makes nothing."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from sandbox_skills.errors import RequestError, ScriptNotFoundError, SkillChangedError
from sandbox_skills.spec import CollectLimits, Command, Limits
from sandbox_skills.telemetry import NOTHING, Redaction
from sandbox_skills.workspace import editor
from sandbox_skills.workspace.commands import check_words, scripts_hint
from sandbox_skills.workspace.handlers import handler_argv
from sandbox_skills.workspace.input_plan import NO_INPUTS, InputRules, RunInputs
from sandbox_skills.workspace.interpreters import read_head, script_argv
from sandbox_skills.workspace.layout import (
    OUTPUT_DIR,
    WORKSPACE_VARIABLES,
    run_directory,
    run_environment,
    skill_link,
    working_directory,
)
from sandbox_skills.workspace.output_spec import plan_outputs
from sandbox_skills.workspace.outputs import check_out_dir
from sandbox_skills.workspace.patterns import parse_patterns
from sandbox_skills.workspace.request import Argv, Handler, Script, Shell, below, within_ceiling

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path, PurePosixPath

    from sandbox_skills.workspace.output_spec import OutputPlan
    from sandbox_skills.workspace.request import Invocation, RunRequest
    from sandbox_skills.workspace.staging import StagedSkill


@dataclass(frozen=True, slots=True)
class RunRules:
    """What an operator lets runs have: the usual limits, the longest time, what is collected, which inputs.

    `fork_python` starts Python programs as `Command.fork` says.
    """

    limits: Limits = field(default_factory=Limits)
    collect: CollectLimits = field(default_factory=CollectLimits)
    wall_ceiling: float = 900.0  # a model that waits longer has lost its way
    inputs: InputRules = field(default_factory=InputRules)
    fork_python: bool = False  # a program could tell


@dataclass(frozen=True, slots=True)
class ReadyRun:
    """A request that was checked, with all it comes to.

    `root` is the box path of the skill as this run has it; without a skill both it and `staged` are None, and `skill`
    is empty. `plan` is there where outputs are asked for as a tool does; `patterns`, `collect` and `out_dir` say what
    is collected either way. `redaction` takes out what nobody may see.
    """

    run_id: str
    skill: str
    staged: StagedSkill | None
    root: PurePosixPath | None
    request: RunRequest
    command: Command
    limits: Limits
    collect: CollectLimits
    patterns: tuple[str, ...] = ()
    plan: OutputPlan | None = None
    inputs: RunInputs = NO_INPUTS
    warnings: tuple[str, ...] = ()
    redaction: Redaction = NOTHING

    @property
    def out_dir(self) -> Path | None:
        """Where collected files are saved on the host; None keeps them in memory."""
        return self.request.out_dir


def ready_run(
    staged: StagedSkill | None, host: Path | None, request: RunRequest, rules: RunRules
) -> ReadyRun:
    """Returns what a request comes to, but for its inputs; raises RequestError.

    `host` is where the staged copy lies; both are None for a run of no skill. Reads the disk only as `reads_disk`
    says.
    """
    _check_content(staged, request)
    run_id = secrets.token_hex(8)
    name = (request.skill_name or staged.name) if staged is not None else ""
    root = _root(staged, name, request)
    variables = {**WORKSPACE_VARIABLES, "RUN_DIR": run_directory(run_id)}
    limits, warnings = within_ceiling(request.limits or rules.limits, request.timeout, rules.wall_ceiling)
    ceiling = request.collect or rules.collect
    plan = _plan(request, ceiling, variables)
    patterns = plan.patterns if plan is not None else parse_patterns(request.outputs, variables=variables)
    if request.out_dir is not None and request.outputs:
        check_out_dir(request.out_dir)
    return ReadyRun(
        run_id=run_id,
        skill=name,
        staged=staged,
        root=root,
        request=request,
        command=_command(
            root,
            host,
            request,
            env=_environment(root, request, name=name, run_id=run_id),
            variables=variables,
            fork=rules.fork_python,
            look_into=_collects_from(patterns),
        ),
        limits=below(limits, request.ceilings),
        collect=plan.limits if plan is not None else ceiling,
        patterns=patterns,
        plan=plan,
        warnings=warnings,
    )


def _check_content(staged: StagedSkill | None, request: RunRequest) -> None:
    if staged is not None and request.digest and request.digest != staged.digest:
        raise SkillChangedError(
            f"skill {staged.name!r} is not the one that the policy is about: its digest is {staged.digest}",
            hint="look at what changed in it; the policy's rule names the digest of what may run",
        )


def reads_disk(request: RunRequest) -> bool:
    """Tells whether checking the request looks at the host's disk, which belongs in a worker thread."""
    saves = request.out_dir is not None and bool(request.outputs)
    # The first bytes of a handler are remembered: calls of tools are many, and a thread would cost more than to read.
    runs_script = isinstance(request.invocation, Script) and not isinstance(request.invocation, Handler)
    return runs_script or saves


def _root(staged: StagedSkill | None, name: str, request: RunRequest) -> PurePosixPath | None:
    if staged is None:
        needs = isinstance(request.invocation, Script) or request.writable_skill or request.grants
        if needs:
            raise RequestError(
                "a script, a writable copy and secrets belong to a skill, and this run has none"
            )
        return None
    return skill_link(name) if request.writable_skill else staged.box_path


def _plan(request: RunRequest, ceiling: CollectLimits, variables: Mapping[str, str]) -> OutputPlan | None:
    if request.wanted is None:
        return None
    if request.outputs or request.out_dir is not None:
        raise RequestError("outputs are asked for in two ways: give either outputs and out_dir, or wanted")
    return plan_outputs(request.wanted, ceiling=ceiling, variables=variables)


def _command(
    root: PurePosixPath | None,
    host: Path | None,
    request: RunRequest,
    *,
    env: Mapping[str, str],
    variables: Mapping[str, str],
    fork: bool,
    look_into: PurePosixPath | None,
) -> Command:
    argv = _argv(root, host, request.invocation)
    check_words(argv)
    return Command(
        argv=argv,
        env=env,
        cwd=working_directory(request.cwd, skill=root, variables=variables),
        stdin=request.stdin,
        record=request.record,
        fork=fork,
        look_into=look_into,
    )


def _environment(
    root: PurePosixPath | None, request: RunRequest, *, name: str, run_id: str
) -> Mapping[str, str]:
    editor.check_editor(request.editor_text, request.env)
    extra = {**(editor.ENVIRONMENT if request.editor_text else {}), **request.env, **request.grants}
    return run_environment(root, skill_name=name, run_id=run_id, extra=extra)


def _collects_from(patterns: tuple[str, ...]) -> PurePosixPath | None:
    """Returns the directory which all patterns are of: where it holds nothing, a visit to collect it is saved."""
    return OUTPUT_DIR if patterns and all(one.startswith(_OUTPUTS) for one in patterns) else None


_OUTPUTS = f"{OUTPUT_DIR.name}/"


def _argv(root: PurePosixPath | None, host: Path | None, invocation: Invocation) -> tuple[str, ...]:
    match invocation:
        case Argv(argv):
            return argv
        case Shell(text):
            return ("bash", "-c", text) if text.strip() else ()
        case Script(path, args):
            assert root is not None  # `_root` has refused it
            assert host is not None
            argv_of = handler_argv if isinstance(invocation, Handler) else script_argv
            return argv_of(root, path, args, _head(host, path))


# A staged skill is never written again, so that the first bytes of its scripts stay what they are.
@lru_cache(maxsize=1024)
def _head(host: Path, script: str) -> bytes:
    try:
        return read_head(host, script)
    except ScriptNotFoundError as error:
        raise ScriptNotFoundError(error.message, hint=scripts_hint(host, script)) from error
