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


class WorkBell:
    """Rung when a run may have become claimable. Each node that listens has a sign, which stays up until it looks.

    So a node that found too little looks again when something has changed for it, and no other does.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, tuple[frozenset[str], asyncio.Event]] = {}

    def sign(self, node_id: str, capabilities: frozenset[str]) -> asyncio.Event:
        """Returns the sign of a node that can do so much, up at first; whoever looks takes it down before."""
        known = self._nodes.get(node_id)
        if known is None:
            sign = asyncio.Event()
            sign.set()
        else:
            sign = known[1]
        self._nodes[node_id] = (capabilities, sign)
        return sign

    def ring(self, needs: frozenset[str] = frozenset()) -> None:
        """Puts up the sign of every node that can do what the run needs for which something has changed."""
        for capabilities, sign in self._nodes.values():
            if needs <= capabilities:
                sign.set()
