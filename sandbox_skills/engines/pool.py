"""Started sandboxes kept ahead of demand, each handed out once.

A pool is an engine over an engine. It never hands one box to two callers: what has run anything is ended, in the
background, and `aclose` waits for that. A spec is served warm by boxes that are equal to it but for the labels.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Self

from sandbox_skills.engines.cancellation import finish
from sandbox_skills.engines.demand import GROW_SECONDS, shares
from sandbox_skills.engines.shelf import Ready, Shelf
from sandbox_skills.errors import EngineError
from sandbox_skills.spec import Command

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection, Sequence
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


MAX_KINDS = 8
"""Kinds of boxes whose demand is watched; the one that was asked for least lately is forgotten."""


class PooledEngine:
    """Keeps boxes ready while entered: `size` of `spec`, and of each kind as many as demand asks for, up to
    `max_size` in all. With size 0 it keeps none and only ends boxes in the background.

    `max_size` None is `size`: the pool does not grow. A box that waited carries no tenant and no run in its labels:
    nobody knew them when it was made.
    """

    def __init__(
        self,
        engine: Engine,
        spec: SandboxSpec,
        *,
        size: int,
        max_size: int | None = None,
        max_age_seconds: float = 600.0,
    ) -> None:
        self._engine = engine
        self._size = size
        self._max_size = size if max_size is None else max(size, max_size)
        self._max_age = max_age_seconds
        self._main = Shelf.of(spec, minimum=size, max_age_seconds=max_age_seconds)
        self._shelves = [self._main]  # the kind that was asked for last comes last
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
        return sum(len(shelf.ready) for shelf in self._shelves)

    async def probe(self) -> EngineReport:
        return await self._engine.probe()

    async def filled(self) -> None:
        """Returns once `size` boxes wait; raises why the last refill of these failed, or that the pool was closed."""

        def decided() -> bool:
            return self._failure is not None or len(self._main.ready) >= self._size

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
        waiting = (box.sandbox.id for shelf in self._shelves for box in shelf.ready)
        return await self._engine.reap({*keep, *waiting})

    async def aclose(self) -> None:
        """Ends every box that waits or is being ended, and the engine below."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._tasks.clear()
        await self._note(EngineError("the pool is closed"))
        for shelf in self._shelves:
            while shelf.ready:
                self._retire(shelf.ready.popleft())
        while self._ending:
            await asyncio.wait(self._ending)
        await self._engine.aclose()

    async def _take(self, spec: SandboxSpec) -> Ready | None:
        if self._closed:
            raise EngineError("the pool is closed")
        shelf = self._asked(spec)
        while shelf is not None and shelf.ready:
            box = shelf.ready.popleft()
            try:
                if await self._healthy(box):
                    return box
            except BaseException:
                self._retire(box)
                raise
            self._retire(box)
        return None

    def _asked(self, spec: SandboxSpec) -> Shelf | None:
        """Returns the shelf that may serve it and counts the demand; None where nothing is started ahead for it."""
        shelf = next((one for one in self._shelves if one.holds(spec)), None)
        if not self._size or (shelf is not None and not shelf.serves(spec)):
            return None
        if shelf is None:
            shelf = self._new_kind(spec)
        else:
            self._shelves.remove(shelf)
        self._shelves.append(shelf)
        shelf.demand.ask(time.monotonic())
        self._wanted.set()
        return shelf

    def _new_kind(self, spec: SandboxSpec) -> Shelf:
        if len(self._shelves) == MAX_KINDS:
            self._forget(next(one for one in self._shelves if one is not self._main))
        return Shelf.of(spec, minimum=0, max_age_seconds=self._max_age)

    def _forget(self, shelf: Shelf) -> None:
        self._shelves.remove(shelf)
        while shelf.ready:
            self._retire(shelf.ready.popleft())

    async def _healthy(self, box: Ready) -> bool:
        """Whether a box may be handed out: it answered lately, or answers now."""
        now = time.monotonic()
        fresh = now - box.seen <= FRESH_SECONDS
        return box.fit(now, self._max_age) and (fresh or await self._answers(box))

    async def _answers(self, box: Ready) -> bool:
        try:
            async with asyncio.timeout(PING_SECONDS):
                await box.sandbox.ping()
        except (EngineError, TimeoutError):
            return False
        box.seen = time.monotonic()
        return True

    async def _start(self, spec: SandboxSpec) -> Ready:
        stack = AsyncExitStack()
        sandbox = await stack.enter_async_context(self._engine.open(spec))
        now = time.monotonic()
        return Ready(sandbox, stack, born=now, seen=now)

    def _retire(self, box: Ready) -> None:
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
            self._drop_surplus()
            missing = self._missing()
            if not missing:
                await self._demand()
            elif await self._add(missing[:REFILLS]):
                pause = RETRY_SECONDS[0]
            else:
                await asyncio.sleep(pause)
                pause = min(pause * 2, longest)

    def _missing(self) -> list[Shelf]:
        """Returns the shelf of each box to be started."""
        return [
            shelf for shelf, count in self._targets(time.monotonic()) for _ in range(count - len(shelf.ready))
        ]

    def _targets(self, now: float) -> list[tuple[Shelf, int]]:
        """Returns how many boxes of each kind should wait; what the pool was made for comes first."""
        shelves = sorted(self._shelves, key=lambda one: one is not self._main)
        least = [one.demand.minimum for one in shelves]
        more = [one.demand.wanted(now) - one.demand.minimum for one in shelves]
        extra = shares(more, self._max_size - sum(least))
        return [(shelf, a + b) for shelf, a, b in zip(shelves, least, extra, strict=True)]

    async def _keep_healthy(self) -> None:
        while True:
            await asyncio.sleep(HEALTH_SECONDS)
            await asyncio.gather(
                *(self._look_at(shelf, box) for shelf in self._shelves for box in shelf.ready)
            )

    async def _look_at(self, shelf: Shelf, box: Ready) -> None:
        """Replaces a waiting box that does not live, before anyone wants it."""
        if not await self._answers(box) and box in shelf.ready:
            shelf.ready.remove(box)
            self._retire(box)
            self._wanted.set()

    async def _demand(self) -> None:
        """Returns once a box was asked for, or it is time to look whether one is too old or too many."""
        self._wanted.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(min(self._max_age / 2, GROW_SECONDS)):
                await self._wanted.wait()
                if self.idle:
                    await asyncio.sleep(YIELD_SECONDS)

    def _drop_surplus(self) -> None:
        """Ends boxes that are unfit or no longer wanted, and those in whose place boxes of another kind are."""
        now = time.monotonic()
        for shelf in self._shelves:
            for box in shelf.take_surplus(now, self._max_age):
                self._retire(box)
        too_many = self.idle + len(self._missing()) - self._max_size
        for shelf, count in self._targets(now):
            while too_many > 0 and len(shelf.ready) > count:
                self._retire(shelf.ready.popleft())
                too_many -= 1

    async def _add(self, shelves: Sequence[Shelf]) -> bool:
        """Starts a box for each shelf, side by side; returns whether all came up. A cancel ends those on their way."""
        async with asyncio.TaskGroup() as group:
            started = [group.create_task(self._add_one(shelf)) for shelf in shelves]
        failures = [(shelf, task.result()) for shelf, task in zip(shelves, started, strict=True)]
        mine = [error for shelf, error in failures if shelf is self._main]
        if mine:
            await self._note(next((error for error in mine if error is not None), None))
        return not any(error for _, error in failures)

    async def _add_one(self, shelf: Shelf) -> EngineError | None:
        begun = time.monotonic()
        try:
            box = await self._start(shelf.spec)
            await self._rehearse(box)
        except EngineError as error:
            logger.warning("a sandbox could not be started ahead: %s", error)
            return self._given_up(shelf, error)
        except Exception as error:
            logger.exception("a sandbox could not be started ahead")
            return self._given_up(shelf, EngineError(f"a sandbox could not be started ahead: {error}"))
        shelf.demand.started(box.seen - begun)
        if shelf in self._shelves:
            shelf.ready.append(box)
        else:
            self._retire(box)
        return None

    def _given_up(self, shelf: Shelf, error: EngineError) -> EngineError:
        """Starts no more boxes of a kind that cannot be had, until it is asked for again."""
        if shelf is not self._main and shelf in self._shelves:
            self._forget(shelf)
        return error

    async def _rehearse(self, box: Ready) -> None:
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
