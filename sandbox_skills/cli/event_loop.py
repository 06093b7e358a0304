"""How the coroutine of a command is run, so that a signal ends it cleanly."""

from __future__ import annotations

import asyncio
import signal
from contextlib import contextmanager
from signal import Signals
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

from sandbox_skills.cli.signals import StoppedBySignalError, leave_at_next_signal, signals_handled
from sandbox_skills.cli.start import imported

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator
    from types import FrameType

T = TypeVar("T")

NOTICE_SECONDS = 1.5
"""A command that has not ended by then says what it waits for: a sandbox is gone within a second, as a rule."""


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Runs a command to its end. A signal cancels it; when it has cleaned up, StoppedBySignalError is raised.

    It cleans up for as long as the Docker daemon may take. A second signal ends the process instead.
    """
    imported()
    return asyncio.run(_until_signal(work))


async def _until_signal(work: Coroutine[Any, Any, T]) -> T:
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    received: list[int] = []

    def cancel(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        leave_at_next_signal()
        loop.call_soon_threadsafe(task.cancel)
        loop.call_soon_threadsafe(loop.call_later, NOTICE_SECONDS, _tell_of_the_wait, number)

    with signals_handled(cancel):
        try:
            return await task
        except asyncio.CancelledError:
            if received:
                raise StoppedBySignalError(received[0]) from None
            raise


@contextmanager
def first_interrupt(action: Callable[[], object]) -> Generator[None]:
    """While the block lasts, the first Ctrl-C does `action` on the event loop, and ends nothing; later ones do.

    An ignored one stays so.
    """
    loop = asyncio.get_running_loop()
    before = signal.getsignal(signal.SIGINT)
    if before == signal.SIG_IGN:
        yield
        return

    def act(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before)
        loop.call_soon_threadsafe(action)

    signal.signal(signal.SIGINT, act)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _tell_of_the_wait(number: int) -> None:
    from sandbox_skills.cli.terminal import err  # noqa: PLC0415  # rich, which few signals need

    text = "stopping: waiting for the Docker daemon to end and remove what was started there"
    # Whoever should read it may not: then the loop, which cleans up, must not wait for that.
    Thread(
        target=err.print,
        args=(f"{text}; another {Signals(number).name} leaves it to the next command",),
        daemon=True,
    ).start()
