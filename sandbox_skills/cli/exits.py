"""What an error is for the shell, and for its user: one table. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from sandbox_skills.cli.signals import StoppedBySignalError
from sandbox_skills.errors import EngineError, ModelError, RequestError, SandboxSkillsError
from sandbox_skills.spec import SIGNAL_BASE, STOPPED_CODES

if TYPE_CHECKING:
    from collections.abc import Mapping

FAILED = 1
USAGE = 2
MODEL_FAILED = 4
SANDBOX_FAILED = 125
INTERRUPTED = STOPPED_CODES["cancelled"]
OUTPUT_CLOSED = STOPPED_CODES["output"]

ERRORS: Mapping[type[SandboxSkillsError], int] = {
    RequestError: USAGE,
    ModelError: MODEL_FAILED,
    EngineError: SANDBOX_FAILED,
}
"""An error has the code of its nearest base here. 125 is what `docker run` and `timeout` use for themselves."""


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


def _os_message(error: OSError) -> str:
    reason = error.strerror or str(error) or type(error).__name__
    return f"{error.filename}: {reason}" if error.filename else reason
