"""What the model is given back by the `openrouter` toolset: `{success, stdout, stderr, exitCode, error?}`. Pure.

An `error` starts with its type and a colon, for programs; what follows tells the model the next step.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Literal

from sandbox_skills.catalog.text import one_line
from sandbox_skills.errors import (
    ApprovalNeededError,
    CommandError,
    GrantConflictError,
    PathEscapeError,
    PolicyError,
    RequestError,
    ScriptNotFoundError,
    SkillChangedError,
    SkillLoadError,
    SkillNotFoundError,
    SkillUnsafeError,
    ToolCallError,
    ToolNotFoundError,
)
from sandbox_skills.spec import Exited, Signalled, Stopped, exit_code

if TYPE_CHECKING:
    from sandbox_skills.catalog.manifest_json import JsonObject
    from sandbox_skills.errors import SandboxSkillsError
    from sandbox_skills.spec import Outcome, StopReason
    from sandbox_skills.workspace.result import RunResult

ErrorType = Literal[
    "SkillNotFound",
    "ScriptNotFound",
    "ScriptNotAllowed",
    "InvalidArgs",
    "ExecutionTimeout",
    "ExecutionFailed",
    "UnknownTool",
]

RESULT_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "success": {"type": "boolean"},
        "stdout": {"type": "string"},
        "stderr": {"type": "string"},
        "exitCode": {"type": "integer", "description": "-1 where nothing ran or it was stopped"},
        "error": {"type": "string", "description": "The type of the error, a colon, and what to do next"},
    },
    "required": ["success", "stdout", "stderr", "exitCode"],
}

TRUNCATED = "[output truncated]"

NOTHING_RAN = -1
"""The exit code where there is none: nothing ran, or it was stopped."""

_MAX_ERROR = 1500
"""Characters of an error: ten names of scripts and a sentence."""

_MAX_ADVICE = 2
"""Hints that an error tells: the last ones are nearest to the end of the run."""

_REFUSALS: tuple[tuple[tuple[type[RequestError], ...], ErrorType], ...] = (
    ((ToolCallError,), "InvalidArgs"),
    ((ToolNotFoundError,), "UnknownTool"),
    ((SkillNotFoundError, SkillLoadError), "SkillNotFound"),
    ((ScriptNotFoundError,), "ScriptNotFound"),
    ((PathEscapeError, CommandError), "ScriptNotAllowed"),
    ((PolicyError, ApprovalNeededError, GrantConflictError), "ScriptNotAllowed"),
    ((SkillUnsafeError, SkillChangedError), "ScriptNotAllowed"),
)


def refusal(error: SandboxSkillsError) -> JsonObject:
    """Returns the result of a call that could not be done. What the host says of itself is not for the model."""
    if not isinstance(error, RequestError):
        text = f"the sandbox failed, not the script ({error.code}). Try again once, then tell the user."
        return _failure(_error("ExecutionFailed", text))
    hint = error.hint[:1].upper() + error.hint[1:]
    return _failure(_error(_type_of(error), f"{error.message.rstrip('.')}. {hint}"))


def run_result(result: RunResult, max_output: int) -> JsonObject:
    """Returns the result of a script that ran; each stream has at most `max_output` bytes, cut at a character."""
    outcome = result.outcome
    content: JsonObject = {
        "success": outcome.ok,
        "stdout": capped(outcome.stdout, max_output, truncated=outcome.stdout_truncated),
        "stderr": capped(outcome.stderr, max_output, truncated=outcome.stderr_truncated),
        "exitCode": NOTHING_RAN if isinstance(outcome.ending, Stopped) else exit_code(outcome.ending),
    }
    return content if outcome.ok else {**content, "error": _run_error(result)}


def capped(data: bytes, limit: int, *, truncated: bool = False) -> str:
    """Returns `data` as text of at most `limit` bytes, and a marker below where that, or `truncated`, cut it."""
    text = data.decode(errors="replace")
    encoded = text.encode()
    if len(encoded) <= limit and not truncated:
        return text
    head = encoded[:limit].decode(errors="ignore")
    return f"{head}{'' if head.endswith(chr(10)) or not head else chr(10)}{TRUNCATED}"


def _type_of(error: RequestError) -> ErrorType:
    for classes, kind in _REFUSALS:
        if isinstance(error, classes):
            return kind
    return "ExecutionFailed"


def _failure(error: str) -> JsonObject:
    return {"success": False, "stdout": "", "stderr": "", "exitCode": NOTHING_RAN, "error": error}


def _error(kind: ErrorType, text: str) -> str:
    return one_line(f"{kind}: {text}", _MAX_ERROR)


def _run_error(result: RunResult) -> str:
    outcome = result.outcome
    kind: ErrorType = "ExecutionFailed"
    if isinstance(outcome.ending, Stopped) and outcome.ending.reason in {"wall_time", "cpu_time"}:
        kind = "ExecutionTimeout"
    parts = [_what_happened(outcome)]
    if outcome.limits_hit and not isinstance(outcome.ending, Stopped):
        parts.append(f"Limits hit: {', '.join(sorted(outcome.limits_hit))}.")
    advice = dict.fromkeys(hint.advice for hint in result.hints[-_MAX_ADVICE:])
    parts += advice or [_NEXT.get(kind, "")]
    if not outcome.sandbox_lives:
        parts.append("The sandbox ended with it: files of earlier calls are gone.")
    return _error(kind, " ".join(parts))


_NEXT: dict[ErrorType, str] = {
    "ExecutionTimeout": "What it printed until then is in stdout. Ask it for less at a time, or tell the user.",
    "ExecutionFailed": "Read stderr and the skill's instructions, and correct the call.",
}


def _what_happened(outcome: Outcome) -> str:
    match outcome.ending:
        case Exited(code):
            return f"the script exited with code {code}."
        case Signalled(number):
            return f"the script died by signal {number} ({_signal_name(number)})."
        case Stopped(reason):
            seconds = outcome.cpu_seconds if reason == "cpu_time" else outcome.wall_seconds
            return _STOPPED[reason].format(seconds=seconds)


_STOPPED: dict[StopReason, str] = {
    "wall_time": "the script was stopped after {seconds:.3g} s.",
    "cpu_time": "the script was stopped after {seconds:.3g} s of processor time.",
    "memory": "the script was stopped: it used more memory than the sandbox has.",
    "output": "the script was stopped: it printed more than a run may.",
    "cancelled": "the script was cancelled.",
}


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
