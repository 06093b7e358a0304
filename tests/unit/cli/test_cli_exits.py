from __future__ import annotations

import signal
from typing import TYPE_CHECKING, get_args

import pytest
import typer

from sandbox_skills.cli.exits import Failure, error_code, failure_of
from sandbox_skills.cli.signals import StoppedBySignalError
from sandbox_skills.daemon import errors as daemon_errors
from sandbox_skills.errors import EngineError, ModelError, RequestError, SandboxSkillsError
from sandbox_skills.spec import STOPPED_CODES, Exited, Signalled, Stopped, StopReason, exit_code

if TYPE_CHECKING:
    from collections.abc import Iterator


def subclasses(base: type[SandboxSkillsError]) -> Iterator[type[SandboxSkillsError]]:
    for kind in base.__subclasses__():
        yield kind
        yield from subclasses(kind)


EXITS = {RequestError: 2, ModelError: 4, EngineError: 125}
KINDS = [kind for kind in subclasses(SandboxSkillsError) if kind.__module__.startswith("sandbox_skills.")]
assert daemon_errors.DatabaseError in KINDS  # the tree is as large as what was imported


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_is_the_callers_the_models_or_the_sandboxs(kind: type[SandboxSkillsError]) -> None:
    # Whatever it takes to make one: what is told of it is the same.
    error = kind.__new__(kind)
    error.message, error.hint = "why", "do"
    codes = {base: code for base, code in EXITS.items() if issubclass(kind, base)}
    assert list(codes.values()) == [error_code(error)]
    assert failure_of(error) == Failure(error_code(error), kind.code, "why", "do")


def test_no_two_errors_share_a_code() -> None:
    codes = [kind.code for kind in KINDS]
    assert len(codes) == len(set(codes))


def test_every_reason_to_stop_has_an_exit_code() -> None:
    assert set(STOPPED_CODES) == set(get_args(StopReason))


@pytest.mark.parametrize(
    ("reason", "code"),
    [("wall_time", 124), ("cpu_time", 124), ("memory", 137), ("output", 141), ("cancelled", 130)],
)
def test_a_stopped_run_exits_as_a_shell_would_say_it(reason: StopReason, code: int) -> None:
    assert exit_code(Stopped(reason)) == code


@pytest.mark.parametrize("code", [0, 1, 3, 126, 127, 255])
def test_a_programs_own_code_is_passed_on(code: int) -> None:
    assert exit_code(Exited(code)) == code


def test_a_signal_is_added_to_128() -> None:
    assert exit_code(Signalled(signal.SIGSEGV)) == 139


def test_a_signal_to_us_is_no_failure_of_the_program() -> None:
    failure = failure_of(StoppedBySignalError(signal.SIGTERM))
    assert failure == Failure(143, "interrupted", "stopped by SIGTERM")


def test_wrong_usage_points_to_the_help() -> None:
    failure = failure_of(typer.BadParameter("no"))
    assert (failure.exit, failure.code) == (2, "usage")
    assert failure.hint == "sandbox-skills --help"


def test_an_error_of_the_system_names_the_file() -> None:
    failure = failure_of(PermissionError(13, "Permission denied", "/some/where"))
    assert failure == Failure(125, "os_error", "/some/where: Permission denied")
    assert failure_of(OSError("odd")).message == "odd"
    assert failure_of(TimeoutError()).message == "TimeoutError"


def test_what_nobody_foresaw_is_never_taken_for_the_programs_own_failure() -> None:
    failure = failure_of(ZeroDivisionError("division by zero"))
    assert (failure.exit, failure.message) == (125, "ZeroDivisionError: division by zero")
    assert failure.is_bug
