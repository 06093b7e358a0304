"""Wakes those of this process who wait for something to change: rung after a change, heard by all who listen."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from sandbox_skills.daemon.dispatch.waiting import Waiting

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


class Bell:
    """One bell for each key, there as long as somebody listens. Of one event loop."""

    def __init__(self) -> None:
        self._listeners: Waiting[asyncio.Event] = Waiting()

    def ring(self, key: str) -> None:
        """Wakes everybody who listens to `key`."""
        for heard in self._listeners.of(key):
            heard.set()

    def listening(self, key: str) -> AbstractContextManager[asyncio.Event]:
        """Gives an event that is set by each ring from now on: look, wait, clear, and nothing is missed."""
        return self._listeners.held(key, asyncio.Event())


async def heard_within(heard: asyncio.Event, seconds: float | None) -> bool:
    """Waits for a ring, at most so long, and forgets it; tells whether there was one."""
    was_heard = await is_up_within(heard, seconds)
    heard.clear()
    return was_heard


async def is_up_within(sign: asyncio.Event, seconds: float | None) -> bool:
    """Waits for a sign to be up, at most so long; tells whether it is."""
    # Not `wait_for`, which swallows a cancel that comes together with a ring.
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await sign.wait()
    return sign.is_set()
