"""Ctrl-C and its like: they end the command, which closes what it has open first."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import FrameType

    Handler = Callable[[int, FrameType | None], object]

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What people, supervisors and closed terminals send."""


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
    """Lets nothing disturb what is left to do: after the first Ctrl-C, a second one comes easily."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)


def stop(number: int, _frame: FrameType | None) -> NoReturn:
    """Ends whatever runs; a handler for code that is not asynchronous. It comes into effect once."""
    ignore_signals()
    raise StoppedBySignalError(number)
