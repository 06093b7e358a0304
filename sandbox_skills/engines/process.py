"""One program under way in a box, as the host holds it."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from sandbox_skills.engines import classify
from sandbox_skills.engines.arguments import check_terminal
from sandbox_skills.engines.cancellation import finish
from sandbox_skills.engines.wire import MAX_DATA, Kind
from sandbox_skills.errors import SandboxLostError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sandbox_skills.engines.classify import Death
    from sandbox_skills.engines.link import Link
    from sandbox_skills.engines.requests import RunRequest
    from sandbox_skills.spec import Limits, Outcome, SignalName, TerminalSize

STOP_SECONDS = 10.0
"""How long after its wall limit, or after a kill, a program may still be there before the box is given up.

The runner itself needs up to 5 s for a tree that will not die, and shares its CPU quota with that tree.
"""


class RunnerProcess:
    """A RUN that was sent. `heard` tells whether its end was looked at."""

    def __init__(
        self, link: Link, request: RunRequest, limits: Limits, post_mortem: Callable[[], Awaitable[Death]]
    ) -> None:
        self._link = link
        self._request = request
        self._post_mortem = post_mortem
        self._started = time.monotonic()
        self._deadline = self._started + limits.wall_seconds + STOP_SECONDS
        self._writing: asyncio.Lock | None = None
        self.heard = False

    async def write(self, data: bytes) -> bool:
        stdin = self._request.stdin
        if self._writing is None:  # most programs are never written to
            self._writing = asyncio.Lock()
        async with self._writing:
            for start in range(0, len(data), MAX_DATA):
                await stdin.drained()
                stdin.feed(data[start : start + MAX_DATA])
        return stdin.accepts

    def close_stdin(self) -> None:
        self._request.stdin.close()

    def resize(self, size: TerminalSize) -> None:
        check_terminal(size)
        self._say(Kind.RESIZE, rows=size.rows, cols=size.cols)

    def signal(self, name: SignalName) -> None:
        self._say(Kind.SIGNAL, signal=name)

    def kill(self) -> None:
        self._say(Kind.KILL, reason="cancelled")
        self._deadline = min(self._deadline, time.monotonic() + STOP_SECONDS)

    async def wait(self) -> Outcome:
        try:
            return await self._ended()
        except SandboxLostError as error:
            # A box that dies of a program is an outcome of the program; any other loss is raised.
            return classify.box_died(
                await self._post_mortem(),
                error,
                stdout=self._request.kept("stdout"),
                stderr=self._request.kept("stderr"),
                wall_seconds=time.monotonic() - self._started,
            )

    async def left(self) -> None:
        """Kills it unless its end was looked at, and returns when it is gone, whatever cancels the caller."""
        if not self.heard:
            await finish(self._end())

    def forget(self) -> None:
        """Ends what the link remembers of it."""
        self._link.give_up(self._request)

    async def _end(self) -> None:
        self.kill()
        with suppress(Exception):  # the caller hears of what made it leave
            await self._ended()

    async def _ended(self) -> Outcome:
        outcome = await self._link.answer_within(self._request, self._deadline - time.monotonic())
        self.heard = True
        if not outcome.sandbox_lives:
            self._link.fail(SandboxLostError(f"processes of a run in {self._link.name} would not die"))
        return outcome

    def _say(self, kind: Kind, **body: object) -> None:
        if not self._request.done:
            self._request.send(kind, body)
