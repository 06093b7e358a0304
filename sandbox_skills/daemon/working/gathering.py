"""How events get into a run's log: those that come within a moment of each other in one transaction."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from sandbox_skills.daemon.truth.run import NewEvent

    Append = Callable[[Sequence[NewEvent]], Awaitable[object]]

GATHER_SECONDS = 0.02
"""How long the first piece waits for others: below what people notice, and most short runs have ended by then."""

EVENT_CHARS = 16 * 1024
"""Characters of one event: a reader that joins gets the first of them soon, and JSON may make six bytes of each."""

MAX_EVENTS = 64
"""Events of one transaction: a megabyte."""


async def append_until(
    over: asyncio.Event,
    *,
    arrived: Callable[[], Awaitable[object]],
    taken: Callable[[], Sequence[NewEvent]],
    append: Append,
) -> None:
    """Appends what `taken` gives, each time that something `arrived`, until it is `over`. Raises what `append` does."""
    while not over.is_set():
        await arrived()
        with suppress(TimeoutError):
            async with asyncio.timeout(GATHER_SECONDS):
                await over.wait()
        while not over.is_set() and (events := taken()):
            await append(events)
