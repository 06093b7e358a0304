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


class Gathering:
    """Appends what `taken` gives, each time that something `arrived`, in a task of its own from `begin` until `end`.

    Most runs say nothing before they are over, and have no such task.
    """

    def __init__(
        self,
        append: Append,
        *,
        arrived: Callable[[], Awaitable[object]],
        taken: Callable[[], Sequence[NewEvent]],
    ) -> None:
        self._append = append
        self._arrived = arrived
        self._taken = taken
        self._over = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def over(self) -> bool:
        """Whether nothing comes any more."""
        return self._over.is_set()

    def begin(self) -> None:
        """Says that there is something; may be called with each piece."""
        if self._task is None:
            self._task = asyncio.create_task(self._go_on(), name="journal")

    async def end(self) -> None:
        """Appends no more than is on its way, and waits for that; raises what `append` does."""
        self._over.set()
        if self._task is not None:
            await self._task

    async def _go_on(self) -> None:
        while not self._over.is_set():
            await self._arrived()
            with suppress(TimeoutError):
                async with asyncio.timeout(GATHER_SECONDS):
                    await self._over.wait()
            while not self._over.is_set() and (events := self._taken()):
                await self._append(events)
