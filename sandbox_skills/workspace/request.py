"""What a caller asks for: one command of one skill, what it is given, and what is wanted of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from sandbox_skills.policy import NO_CEILINGS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sandbox_skills.policy import RunLimits
    from sandbox_skills.recording import Recorded
    from sandbox_skills.spec import CollectLimits, Limits
    from sandbox_skills.workspace.input_plan import AnyInput
    from sandbox_skills.workspace.output_spec import OutputRequest


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


@dataclass(frozen=True, slots=True)
class Handler(Script):
    """A script that holds the handler of a tool; `handlers.handler_request` says what it is given."""


Invocation = Argv | Shell | Script


@dataclass(frozen=True, slots=True)
class RunRequest:
    """One run of a skill, or of none. Everything is checked before anything starts.

    `skill_name` is what SKILL_NAME says, the folder's name where it is empty. `timeout` is seconds, cut to the ceiling;
    0 is the usual time. `editor_text` is what a program finds that starts $EDITOR. `writable_skill` runs a private
    copy of the skill, which a session keeps. `grants` are secret variables that a policy gives this skill: a box that
    was given some runs no other skill, and no output shows them. `digest` is the only content of the skill that may
    run, "" any. `ceilings` are the policy's: no limit, and no time that was asked for, is above them.
    `record` is what is to be seen of the run; the result's outcome has the recording.

    Outputs are asked for in one of two ways. `outputs` are globs relative to the workspace; `out_dir` is where they
    are saved, None keeps them in memory; without `overwrite`, files that are there and differ stay, and the
    result's `skipped` has them. `wanted` asks as a tool does, and the result has a `report`.
    """

    invocation: Invocation
    skill_name: str = ""
    digest: str = ""
    cwd: str = ""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    grants: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    stdin: bytes | None = None
    editor_text: str = ""
    timeout: float = 0.0
    writable_skill: bool = False
    inputs: tuple[AnyInput, ...] = ()
    outputs: tuple[str, ...] = ()
    out_dir: Path | None = None
    overwrite: bool = True
    wanted: OutputRequest | None = None
    limits: Limits | None = None
    ceilings: RunLimits = NO_CEILINGS
    record: frozenset[Recorded] = frozenset()
    collect: CollectLimits | None = None


def within_ceiling(limits: Limits, timeout: float, ceiling: float) -> tuple[Limits, tuple[str, ...]]:
    """Returns the limits of a run that asks for `timeout` seconds, and a warning where it gets fewer.

    What is not positive asks for nothing. A model cannot know the ceiling, so it is told and not refused.
    """
    if not timeout > 0:  # NaN too
        return limits, ()
    if timeout <= ceiling:
        return replace(limits, wall_seconds=timeout), ()
    asked = f"{timeout:g} s were" if math.isfinite(timeout) else "no end was"
    warning = f"{asked} asked for, but no run may take more than {ceiling:g} s"
    return replace(limits, wall_seconds=ceiling), (warning,)


def below(limits: Limits, ceilings: RunLimits) -> Limits:
    """Returns limits none of which is above the ceilings."""
    if (
        ceilings is NO_CEILINGS or ceilings == NO_CEILINGS
    ):  # to compare models takes longer than all that follows
        return limits
    cpu = limits.cpu_seconds
    return replace(
        limits,
        wall_seconds=_lower(limits.wall_seconds, ceilings.wall_seconds),
        cpu_seconds=ceilings.cpu_seconds if cpu is None else _lower(cpu, ceilings.cpu_seconds),
        stdout_bytes=_lower(limits.stdout_bytes, ceilings.stdout_bytes),
        stderr_bytes=_lower(limits.stderr_bytes, ceilings.stderr_bytes),
    )


N = TypeVar("N", int, float)


def _lower(now: N, ceiling: N | None) -> N:
    return now if ceiling is None else min(now, ceiling)
