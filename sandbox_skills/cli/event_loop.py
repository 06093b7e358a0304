"""How the coroutine of a command is run, so that a signal ends it cleanly."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from sandbox_skills.cli.signals import StoppedBySignalError, signals_handled

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from types import FrameType

T = TypeVar("T")


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Runs a command to its end. A signal cancels it; when it has cleaned up, StoppedBySignalError is raised."""
    return asyncio.run(_until_signal(work))


async def _until_signal(work: Coroutine[Any, Any, T]) -> T:
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    received: list[int] = []

    def cancel(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        loop.call_soon_threadsafe(task.cancel)

    with signals_handled(cancel):
        try:
            return await task
        except asyncio.CancelledError:
            if received:
                raise StoppedBySignalError(received[0]) from None
            raise
