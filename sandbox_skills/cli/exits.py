"""What a command's end is for the shell: one table for errors, one rule for endings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.errors import EngineError, RequestError, SandboxSkillsError
from sandbox_skills.spec import Exited, Signalled, Stopped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox_skills.spec import Ending, StopReason

FAILED = 1
USAGE = 2
SANDBOX_FAILED = 125
INTERRUPTED = 130
TERMINATED = 143

ERRORS: Mapping[type[SandboxSkillsError], int] = {RequestError: USAGE, EngineError: SANDBOX_FAILED}
"""An error has the code of its nearest base here. 125 is what `docker run` and `timeout` use for themselves."""

STOPPED: Mapping[StopReason, int] = {
    "wall_time": 124,  # as `timeout` says it
    "cpu_time": 124,
    "memory": 137,  # as a shell says it of a program that the kernel killed
    "output": 141,  # as a shell says it of a program that died of SIGPIPE
    "cancelled": INTERRUPTED,
}

SIGNAL_BASE = 128


def error_code(error: SandboxSkillsError) -> int:
    """Returns the exit code for an error."""
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
