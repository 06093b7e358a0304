"""The program `sandbox-skills`: runs one command, and tells what went wrong."""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

from sandbox_skills.cli.commands import app
from sandbox_skills.cli.exits import OUTPUT_CLOSED, Failure, failure_of
from sandbox_skills.cli.late_commands import program
from sandbox_skills.cli.options import GlobalOptions, asks_for_json
from sandbox_skills.cli.signals import (
    StoppedBySignalError,
    ignore_signals,
    leave_at_next_signal,
    signals_handled,
    stop,
)
from sandbox_skills.cli.streams import OutputClosedError, prepare_streams, release_streams, within

if TYPE_CHECKING:
    from collections.abc import Sequence

TELL_SECONDS = 1.0
"""How long a program that a signal ended tries to say so: who does not read by then is not reading."""

THREADS_SECONDS = 1.0
"""How long the end waits for threads: those that are only about to end take milliseconds."""


def main() -> None:
    """Runs the program and exits with the code that `exits` gives."""
    code = run_program(sys.argv[1:])
    ignore_signals()  # the interpreter's end would make another code of one
    _leave(code)


def _leave(code: int) -> NoReturn:
    """Exits. A thread that waits for a daemon which may never answer would hold up the interpreter's own end."""
    deadline = time.monotonic() + THREADS_SECONDS
    others = [one for one in threading.enumerate() if one is not threading.main_thread() and not one.daemon]
    for thread in others:
        thread.join(max(0.0, deadline - time.monotonic()))
    if any(thread.is_alive() for thread in others):
        os._exit(code)
    sys.exit(code)


def run_program(arguments: Sequence[str]) -> int:
    """Runs one command line, tells its failure where there is one, and returns the exit code."""
    prepare_streams()
    options = GlobalOptions(as_json=asks_for_json(arguments))
    with signals_handled(stop):
        try:
            return _dispatch(arguments or ("--help",), options)
        except OutputClosedError:
            return OUTPUT_CLOSED
        except StoppedBySignalError as error:
            leave_at_next_signal()
            return _tell_if_read(error, as_json=options.as_json)
        except Exception as error:  # noqa: BLE001  # Python's 1 could be the program's own
            leave_at_next_signal()
            failure = failure_of(error)
            _tell(failure, error, as_json=options.as_json)
            return failure.exit
        finally:
            release_streams()


def _dispatch(arguments: Sequence[str], options: GlobalOptions) -> int:
    try:
        code = program(app).main(
            list(arguments), prog_name="sandbox-skills", standalone_mode=False, obj=options
        )
    except SystemExit as error:
        # The library leaves this way only where it finds its output closed.
        raise OutputClosedError from error
    return code if isinstance(code, int) else 0


def _tell_if_read(error: StoppedBySignalError, *, as_json: bool) -> int:
    """Tells which signal it was, and returns the exit code; ends the process where nobody reads that."""
    import_module("sandbox_skills.cli.terminal")  # counts for nothing: from a cold disk it may take longer
    failure = failure_of(error)

    def tell() -> None:
        _tell(failure, error, as_json=as_json)
        release_streams()

    if not within(TELL_SECONDS, tell):
        os._exit(failure.exit)
    return failure.exit


def _tell(failure: Failure, error: BaseException, *, as_json: bool) -> None:
    from sandbox_skills.cli.terminal import print_failure  # noqa: PLC0415  # rich, which `--help` does without

    if failure.is_bug:
        with suppress(OSError):
            traceback.print_exception(error)
    # Whoever asked for JSON and cannot take it is told in text; nobody may be left to be told.
    for form in dict.fromkeys((as_json, False)):
        with suppress(OutputClosedError, OSError, StoppedBySignalError):
            print_failure(failure, as_json=form)
            return
