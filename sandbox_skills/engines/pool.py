"""Started sandboxes kept ahead of demand, each handed out once.

A pool is an engine over an engine. It never hands one box to two callers: what has run anything is ended, in the
background, and `aclose` waits for that. Only a spec equal to the pool's own (labels aside) is served warm.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from sandbox_skills.engines.cancellation import finish
from sandbox_skills.errors import EngineError
from sandbox_skills.spec import Command

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection
    from types import TracebackType

    from sandbox_skills.engines.base import Engine, EngineReport, Sandbox
    from sandbox_skills.spec import Guarantee, SandboxId, SandboxSpec

logger = logging.getLogger(__name__)

REFILLS = 2
"""Boxes started at once by the refill: throughput is flat from two on two cores (measured)."""

RETRY_SECONDS = (0.5, 30.0)
"""First and longest pause after a refill that failed: a daemon that is away must not be hammered."""

REHEARSAL = Command(("true",), env={"PATH": "/usr/bin:/bin"})

YIELD_SECONDS = 0.05
"""While another box waits, the refill lets the run that took one go first: on two cores a start beside it more than
doubled the time of a short run (measured). A start takes twice as long as this anyway."""

HEALTH_SECONDS = 1.0
"""How often each waiting box is asked whether it lives: 0.3 ms each, so that a hand-out need not wait for it."""

FRESH_SECONDS = 2.5
"""A box that answered within this time is handed out unasked: two rounds, so that one late answer does not count."""

PING_SECONDS = 2.0
"""A waiting box that does not answer in this time is not handed out."""


@dataclass(slots=True, eq=False)
class _Ready:
    """A box that waits, and the stack that ends it."""

    sandbox: Sandbox
    stack: AsyncExitStack
    born: float
    seen: float


class PooledEngine:
    """Keeps `size` boxes of `spec` ready while entered. With size 0 it only ends boxes in the background.

    A box that waited carries no tenant and no run in its labels: nobody knew them when it was made.
    """

    def __init__(
        self, engine: Engine, spec: SandboxSpec, *, size: int, max_age_seconds: float = 600.0
    ) -> None:
        self._engine = engine
        self._ttl = spec.ttl_seconds
        self._spec = replace(spec, tenant="", run="", ttl_seconds=spec.ttl_seconds + max_age_seconds)
        self._size = size
        self._max_age = max_age_seconds
        self._ready: deque[_Ready] = deque()
        self._wanted = asyncio.Event()
        self._changed = asyncio.Condition()
        self._tasks: list[asyncio.Task[None]] = []
        self._ending: set[asyncio.Task[None]] = set()
        self._failure: EngineError | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        if self._size:
            self._tasks = [
                asyncio.create_task(self._keep_filled(), name="pool refill"),
                asyncio.create_task(self._keep_healthy(), name="pool health"),
            ]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await finish(self.aclose())

    @property
    def guarantees(self) -> frozenset[Guarantee]:
        return self._engine.guarantees

    @property
    def idle(self) -> int:
        """How many boxes wait."""
        return len(self._ready)

    async def probe(self) -> EngineReport:
        return await self._engine.probe()

    async def filled(self) -> None:
        """Returns once the pool is full; raises why the last refill failed, or that the pool was closed."""

        def decided() -> bool:
            return self._failure is not None or len(self._ready) >= self._size

        async with self._changed:
            await self._changed.wait_for(decided)
            if self._failure is not None:
                raise self._failure.with_traceback(None)

    async def settled(self) -> None:
        """Returns once the pool is full and no box is being ended; raises as `filled` does."""
        await self.filled()
        while self._ending:
            await asyncio.wait(self._ending)

    @asynccontextmanager
    async def open(self, spec: SandboxSpec) -> AsyncGenerator[Sandbox]:
        """Yields a box that nobody has used. Leaving returns at once; the box is ended in the background."""
        box = await self._take(spec) or await self._start(spec)
        try:
            yield box.sandbox
        finally:
            self._retire(box)

    async def reap(self, keep: Collection[SandboxId]) -> list[SandboxId]:
        return await self._engine.reap({*keep, *(box.sandbox.id for box in self._ready)})

    async def aclose(self) -> None:
        """Ends every box that waits or is being ended, and the engine below."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._tasks.clear()
        await self._note(EngineError("the pool is closed"))
        while self._ready:
            self._retire(self._ready.popleft())
        while self._ending:
            await asyncio.wait(self._ending)
        await self._engine.aclose()

    async def _take(self, spec: SandboxSpec) -> _Ready | None:
        if self._closed:
            raise EngineError("the pool is closed")
        while self._ready and self._serves(spec):
            box = self._ready.popleft()
            self._wanted.set()
            try:
                if await self._healthy(box):
                    return box
            except BaseException:
                self._retire(box)
                raise
            self._retire(box)
        return None

    def _serves(self, spec: SandboxSpec) -> bool:
        asked = (spec.limits, spec.needs, spec.network)
        mine = (self._spec.limits, self._spec.needs, self._spec.network)
        return asked == mine and spec.ttl_seconds <= self._ttl

    async def _healthy(self, box: _Ready) -> bool:
        """Whether a box may be handed out: it answered lately, or answers now."""
        fresh = time.monotonic() - box.seen <= FRESH_SECONDS
        return self._fit(box) and (fresh or await self._answers(box))

    async def _answers(self, box: _Ready) -> bool:
        try:
            async with asyncio.timeout(PING_SECONDS):
                await box.sandbox.ping()
        except (EngineError, TimeoutError):
            return False
        box.seen = time.monotonic()
        return True

    async def _start(self, spec: SandboxSpec) -> _Ready:
        stack = AsyncExitStack()
        sandbox = await stack.enter_async_context(self._engine.open(spec))
        now = time.monotonic()
        return _Ready(sandbox, stack, born=now, seen=now)

    def _retire(self, box: _Ready) -> None:
        task = asyncio.create_task(box.stack.aclose(), name=f"end {box.sandbox.id}")
        self._ending.add(task)
        task.add_done_callback(self._retired)

    def _retired(self, task: asyncio.Task[None]) -> None:
        self._ending.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.warning("a sandbox could not be ended: %s", error)

    async def _keep_filled(self) -> None:
        pause, longest = RETRY_SECONDS
        while True:
            self._drop_unfit()
            missing = self._size - len(self._ready)
            if missing <= 0:
                await self._demand()
            elif await self._add(min(missing, REFILLS)):
                pause = RETRY_SECONDS[0]
            else:
                await asyncio.sleep(pause)
                pause = min(pause * 2, longest)

    async def _keep_healthy(self) -> None:
        while True:
            await asyncio.sleep(HEALTH_SECONDS)
            await asyncio.gather(*(self._look_at(box) for box in tuple(self._ready)))

    async def _look_at(self, box: _Ready) -> None:
        """Replaces a waiting box that does not live, before anyone wants it."""
        if not await self._answers(box) and box in self._ready:
            self._ready.remove(box)
            self._retire(box)
            self._wanted.set()

    async def _demand(self) -> None:
        """Returns once a box was taken, or it is time to look whether one has become too old."""
        self._wanted.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._max_age / 2):
                await self._wanted.wait()
                if self._ready:
                    await asyncio.sleep(YIELD_SECONDS)

    def _drop_unfit(self) -> None:
        for box in [box for box in self._ready if not self._fit(box)]:
            self._ready.remove(box)
            self._retire(box)

    def _fit(self, box: _Ready) -> bool:
        return box.sandbox.alive and time.monotonic() - box.born <= self._max_age

    async def _add(self, count: int) -> bool:
        """Starts `count` boxes side by side; returns whether all came up. A cancel ends those on their way."""
        async with asyncio.TaskGroup() as group:
            started = [group.create_task(self._add_one()) for _ in range(count)]
        failures = [error for task in started if (error := task.result()) is not None]
        await self._note(failures[0] if failures else None)
        return not failures

    async def _add_one(self) -> EngineError | None:
        try:
            box = await self._start(self._spec)
            await self._rehearse(box)
            self._ready.append(box)
        except EngineError as error:
            logger.warning("a sandbox could not be started ahead: %s", error)
            return error
        except Exception as error:
            logger.exception("a sandbox could not be started ahead")
            return EngineError(f"a sandbox could not be started ahead: {error}")
        return None

    async def _rehearse(self, box: _Ready) -> None:
        """Runs a program that does nothing: the first run of a box takes 1 ms longer than the next (measured)."""
        try:
            await box.sandbox.run(REHEARSAL)
        except BaseException:
            self._retire(box)
            raise
        box.seen = time.monotonic()

    async def _note(self, failure: EngineError | None) -> None:
        async with self._changed:
            self._failure = failure
            self._changed.notify_all()
