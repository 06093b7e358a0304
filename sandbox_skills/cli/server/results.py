"""A run as a daemon tells it → the result that a run of this machine has. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pydantic import BaseModel, ConfigDict, ValidationError

from sandbox_skills.client import ServerAnswerError
from sandbox_skills.spec import Exited, Outcome, Signalled, Stopped
from sandbox_skills.workspace.hints import Hint
from sandbox_skills.workspace.result import RunResult

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sandbox_skills.client import Run
    from sandbox_skills.spec import LimitName
    from sandbox_skills.workspace.hint_rules import HintKind


class _Told(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _HintTold(_Told):
    kind: str
    subject: str = ""
    advice: str = ""


class FileTold(_Told):
    """An output: its path in the workspace, its size there, and whether the server took less."""

    name: str
    size_bytes: int = 0
    truncated: bool = False


class ResultTold(_Told):
    """What a program wrote and left. Everything may be missing: a run that was cancelled has no more."""

    run_id: str = ""
    skill: str = ""
    digest: str = ""
    stdout: str = ""
    stderr: str = ""
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    max_rss: int = 0
    sandbox_lives: bool = True
    limits_guessed: tuple[str, ...] = ()
    skipped: dict[str, str] = {}
    notes: tuple[str, ...] = ()
    hints: tuple[_HintTold, ...] = ()
    output_files: tuple[FileTold, ...] = ()
    warnings: tuple[str, ...] = ()


def told_result(run: Run) -> ResultTold:
    """Returns what the server tells of a run's result; raises ServerAnswerError where that is none."""
    try:
        return ResultTold.model_validate(run.result or {})
    except ValidationError as error:
        raise ServerAnswerError(
            f"the result of run {run.id} cannot be read: {error.errors()[0]['msg']}"
        ) from error


def result_of(run: Run) -> RunResult:
    """Returns the result of a run that is over, without files. Raises what kept it from running."""
    if (error := run.error) is not None:
        raise error
    assert isinstance(run.outcome, Exited | Signalled | Stopped)
    told = told_result(run)
    outcome = Outcome(
        ending=run.outcome,
        limits_hit=_limits(run.limits_hit),
        limits_guessed=_limits(told.limits_guessed),
        stdout=told.stdout.encode(errors="replace"),
        stderr=told.stderr.encode(errors="replace"),
        stdout_truncated=told.stdout_truncated,
        stderr_truncated=told.stderr_truncated,
        stdout_bytes=told.stdout_bytes,
        stderr_bytes=told.stderr_bytes,
        wall_seconds=told.wall_seconds,
        cpu_seconds=told.cpu_seconds,
        max_rss=told.max_rss,
        sandbox_lives=told.sandbox_lives,
    )
    return RunResult(
        run_id=told.run_id or run.id,
        skill=told.skill or (run.skill.name if run.skill is not None else ""),
        digest=told.digest,
        outcome=outcome,
        skipped=told.skipped,
        limits_hit=outcome.limits_hit,
        notes=told.notes,
        hints=tuple(Hint(cast("HintKind", one.kind), one.subject, one.advice) for one in told.hints),
    )


def _limits(names: Iterable[str]) -> frozenset[LimitName]:
    return frozenset(cast("LimitName", name) for name in names)
