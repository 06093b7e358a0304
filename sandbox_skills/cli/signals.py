"""Ctrl-C and its like: the first ends the command, which closes what it has open; the second ends the process."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NoReturn

from sandbox_skills.cli.streams import STDERR, within
from sandbox_skills.spec import SIGNAL_BASE

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import FrameType

    Handler = Callable[[int, FrameType | None], object]

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What people, supervisors and closed terminals send."""

ECHO_SECONDS = 0.5
"""A terminal, and whoever started us, both pass on one Ctrl-C: what follows within this time is no second wish."""

LAST_WORDS_SECONDS = 0.5
"""For what is said at the very end: a terminal takes it at once, and a pipe that nobody reads never."""

LAST_WORDS = b"error: ended before all was cleaned up; the next command, or `sandbox-skills gc`, removes what is left\n"


class StoppedBySignalError(BaseException):
    """Somebody ended the command. No `Exception`, as KeyboardInterrupt is none: no library may swallow it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number
        self.name = signal.Signals(number).name


@contextmanager
def signals_handled(handler: Handler) -> Generator[None]:
    """While the block lasts, `handler` is called for a signal that ends the command, and nothing else happens.

    One that is ignored stays so: `nohup`, and shells that run us in the background, mean it.
    """
    before = {number: signal.getsignal(number) for number in ENDING}
    heard = {number: old for number, old in before.items() if old != signal.SIG_IGN}
    for number in heard:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in heard.items():
            signal.signal(number, old)


def ignore_signals() -> None:
    """Lets nothing disturb what is left to do, which is next to nothing."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)


def leave_at_next_signal() -> None:
    """From now on a signal ends the process at once, whatever it waits for. One that is ignored stays so.

    What is left undone is found by the next command, as after a kill.
    """
    since = time.monotonic()

    def leave(number: int, _frame: FrameType | None) -> None:
        if time.monotonic() - since >= ECHO_SECONDS:
            within(LAST_WORDS_SECONDS, _say_last_words)
            os._exit(SIGNAL_BASE + number)

    for number in ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, leave)


def _say_last_words() -> None:
    with suppress(OSError):
        os.write(STDERR, LAST_WORDS)
        sys.stdout.flush()


def stop(number: int, _frame: FrameType | None) -> NoReturn:
    """Ends whatever runs; a handler for code that is not asynchronous. It comes into effect once."""
    leave_at_next_signal()
    raise StoppedBySignalError(number)
