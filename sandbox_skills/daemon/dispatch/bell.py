"""Wakes those of this process who wait for something to change: rung after a change, heard by all who listen."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator


class Bell:
    """One bell for each key, there as long as somebody listens. Of one event loop."""

    def __init__(self) -> None:
        self._listeners: dict[str, set[asyncio.Event]] = {}

    def ring(self, key: str) -> None:
        """Wakes everybody who listens to `key`."""
        for heard in self._listeners.get(key, ()):
            heard.set()

    @contextmanager
    def listening(self, key: str) -> Generator[asyncio.Event]:
        """Gives an event that is set by each ring from now on: look, wait, clear, and nothing is missed."""
        heard = asyncio.Event()
        listeners = self._listeners.setdefault(key, set())
        listeners.add(heard)
        try:
            yield heard
        finally:
            listeners.discard(heard)
            if not listeners and self._listeners.get(key) is listeners:
                del self._listeners[key]


async def heard_within(heard: asyncio.Event, seconds: float | None) -> bool:
    """Waits for a ring, at most so long, and forgets it; tells whether there was one."""
    # Not `wait_for`, which swallows a cancel that comes together with a ring.
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await heard.wait()
    was_heard = heard.is_set()
    heard.clear()
    return was_heard
