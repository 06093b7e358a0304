"""What a command's end is for the shell, and for its user: one table for errors, one rule for endings. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from sandbox_skills.cli.signals import SIGNAL_BASE, StoppedBySignalError
from sandbox_skills.errors import EngineError, ModelError, RequestError, SandboxSkillsError
from sandbox_skills.spec import Exited, Signalled, Stopped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox_skills.spec import Ending, StopReason

FAILED = 1
USAGE = 2
MODEL_FAILED = 4
SANDBOX_FAILED = 125
INTERRUPTED = 130
OUTPUT_CLOSED = 141
"""As a shell says it of a program that died of SIGPIPE."""

ERRORS: Mapping[type[SandboxSkillsError], int] = {
    RequestError: USAGE,
    ModelError: MODEL_FAILED,
    EngineError: SANDBOX_FAILED,
}
"""An error has the code of its nearest base here. 125 is what `docker run` and `timeout` use for themselves."""

STOPPED: Mapping[StopReason, int] = {
    "wall_time": 124,  # as `timeout` says it
    "cpu_time": 124,
    "memory": 137,  # as a shell says it of a program that the kernel killed
    "output": OUTPUT_CLOSED,
    "cancelled": INTERRUPTED,
}


@dataclass(frozen=True, slots=True)
class Failure:
    """What is told of an error: the exit code, then what JSON has. `is_bug` is one that we did not foresee."""

    exit: int
    code: str
    message: str
    hint: str = ""
    is_bug: bool = False


def failure_of(error: BaseException) -> Failure:
    """Returns what to tell of an error that ended a command."""
    match error:
        case SandboxSkillsError():
            return Failure(error_code(error), error.code, error.message, error.hint)
        case typer.TyperException():
            return _usage(error)
        case StoppedBySignalError():
            return Failure(SIGNAL_BASE + error.number, "interrupted", f"stopped by {error.name}")
        case OSError():
            return Failure(SANDBOX_FAILED, "os_error", _os_message(error))
        case _:
            message = f"{type(error).__name__}: {error}"
            return Failure(
                SANDBOX_FAILED, "internal", message, "this is a fault of sandbox-skills", is_bug=True
            )


def _usage(error: typer.TyperException) -> Failure:
    path = getattr(getattr(error, "ctx", None), "command_path", "sandbox-skills")
    hint = f"{path} --help"
    # Only an option that is not ours knows of others.
    if path.endswith(" run") and hasattr(error, "possibilities"):
        hint = f"put -- before the program's own arguments; ours are in `{hint}`"
    return Failure(USAGE, "usage", error.format_message(), hint)


def error_code(error: SandboxSkillsError) -> int:
    """Returns the exit code for an error of the package."""
    return next((ERRORS[base] for base in type(error).__mro__ if base in ERRORS), SANDBOX_FAILED)


def ending_code(ending: Ending) -> int:
    """Returns the exit code that mirrors how a program ended."""
    match ending:
        case Exited(code):
            return code
        case Signalled(signal):
            return SIGNAL_BASE + signal
        case Stopped(reason):
            return STOPPED[reason]


def _os_message(error: OSError) -> str:
    reason = error.strerror or str(error) or type(error).__name__
    return f"{error.filename}: {reason}" if error.filename else reason
