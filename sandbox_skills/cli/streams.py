"""The standard streams, whatever we are given: closed, full, or with a reader that goes away."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

STDOUT, STDERR = 1, 2


class OutputClosedError(Exception):
    """Whoever read our output has gone, as `head` does: no fault, and nobody is left to be told.

    No OSError, which typer would end the program for.
    """


def prepare_streams() -> None:
    """Makes both output streams usable.

    One that is closed leads nowhere, so that no socket of ours gets its number. Characters that have no UTF-8, as
    names of files may have, are escaped.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= STDERR:
        pass
    os.close(descriptor)
    # The interpreter leaves None where it found a stream closed.
    sys.stdout = sys.stdout or os.fdopen(STDOUT, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(STDERR, "w", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def release_streams() -> None:
    """Drops what a stream would not take: the interpreter would try again at its end, and complain."""
    for stream, descriptor in ((sys.stdout, STDOUT), (sys.stderr, STDERR)):
        try:
            stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, descriptor)
            os.close(nowhere)


def write(text: str, stream: TextIO) -> None:
    """Writes text at once; raises OutputClosedError where its reader has gone."""
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError as error:
        raise OutputClosedError from error


def within(seconds: float, work: Callable[[], object]) -> bool:
    """Does what may block for ever, as writing to a pipe that nobody reads; returns whether it was done in time.

    Its thread is left behind otherwise, and does not hold up the end of the process.
    """
    thread = Thread(target=work, name="may block", daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()
