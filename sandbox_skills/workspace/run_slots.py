"""Slots for programs in one sandbox, as many as its engine lets run at once."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sandbox_skills.errors import SessionBusyError

if TYPE_CHECKING:
    from collections.abc import Generator


class RunSlots:
    """Slots that runs and interactive programs take, each one of `most`.

    Who finds none free waits for a run to end. Nobody waits where interactive programs have them all: they may be
    waiting themselves, for whoever would wait.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0
        self._programs = 0
        self._changed = asyncio.Event()

    async def free(self, session_id: str) -> None:
        """Waits until a slot is free; raises SessionBusyError where none will be by itself.

        It is free until the next await: take it at once.
        """
        while self._taken >= self._most:
            if self._programs >= self._most:
                raise SessionBusyError(
                    f"interactive programs have every slot of session {session_id!r}",
                    hint="let one end, or kill it; the setting session.concurrent_runs allows more",
                )
            await self._changed.wait()

    @contextmanager
    def taken(self, *, interactive: bool) -> Generator[None]:
        """Holds a slot while the block lasts."""
        self._change(1, interactive=interactive)
        try:
            yield
        finally:
            self._change(-1, interactive=interactive)

    def _change(self, by: int, *, interactive: bool) -> None:
        self._taken += by
        self._programs += by if interactive else 0
        self._changed.set()  # wakes who waits now, in the order they came
        self._changed = asyncio.Event()
