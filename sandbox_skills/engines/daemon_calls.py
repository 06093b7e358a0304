"""Blocking calls of the Docker daemon, each in a worker thread, and what a cancel does to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import anyio
import anyio.to_thread

from sandbox_skills.engines.cancellation import finish

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

THREADS = 16
"""Daemon calls at once. Throughput is flat from 4 (measured), so more would only queue in the daemon."""

GRACE_SECONDS = 5.0
"""How long a cancel waits for a call under way: eight starts side by side on two cores take 2 s (measured), and
whoever pressed Ctrl-C is waiting."""


class DaemonCalls:
    """Runs what blocks off the event loop. A thread that was left behind ends with its call, or the process."""

    def __init__(self) -> None:
        self._threads = anyio.CapacityLimiter(THREADS)

    async def look(self, function: Callable[..., T], *args: object) -> T:
        """Makes a call that changes nothing: a cancel does not wait for it."""
        return await anyio.to_thread.run_sync(function, *args, abandon_on_cancel=True, limiter=self._threads)

    async def change(self, function: Callable[..., T], *args: object) -> T:
        """Makes a call that has an effect: a cancel waits for its end, up to GRACE_SECONDS.

        Whoever was cancelled cannot know whether it had its effect, or will have it yet.
        """
        return await finish(self.look(function, *args), grace=GRACE_SECONDS)
