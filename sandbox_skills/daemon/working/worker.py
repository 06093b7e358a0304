"""The worker: takes runs whose turn has come, does them, says how they ended; and stops taking when it drains."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from sandbox_skills.daemon.errors import DatabaseError, LeaseLostError
from sandbox_skills.daemon.working.endings import cancelled, failed
from sandbox_skills.engines.cancellation import finish

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from sandbox_skills.daemon.dispatch.base import Lease, Node, NodeRegistry, RunQueue
    from sandbox_skills.daemon.truth.run import Finished, NewEvent, Run
    from sandbox_skills.daemon.working.gathering import Append

logger = logging.getLogger(__name__)

V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)

if TYPE_CHECKING:
    Work = Callable[[Run, V], Awaitable[Finished]]
    """Does a run and says how it ended; what happens meanwhile it tells by a voice."""

CLAIM_SECONDS = 5.0
"""How long one request for runs waits: whatever may wake it is of this process, so that it could wait for ever."""

PAUSE_SECONDS = 1.0
"""After a fault of the database, before it is asked again."""

CANCEL_SECONDS = 1.0
"""Between two cancels of a loop: the first is enough, as a rule."""

RENEWALS = 3
"""How often a lease is renewed in its time: two may fail."""


class Journal(Protocol[V_co]):
    """Writes into a run's log what its work tells by `voice`, until `end`."""

    @property
    def voice(self) -> V_co: ...

    async def end(self) -> list[NewEvent]:
        """Returns what is not in the log yet; raises what writing it did."""
        ...


@dataclass(slots=True)
class _Going:
    """A run under way. Once it is `over` its end is being written down, which nothing cancels."""

    lease: Lease
    task: asyncio.Task[None]
    over: bool = False

    def cancel(self) -> None:
        if not self.over:
            self.task.cancel()

    def stop(self) -> None:
        """Cancels it once it has begun: before that it would not write down how it ended."""
        asyncio.get_running_loop().call_soon(self.cancel)


class Worker(Generic[V]):
    """Works on runs, `node.slots` at once, until it is drained. `work` does one and says how it ended.

    `on_end` is called with each run once its end is written down. `drained` says how runs end that were still under way
    when the worker had to stop.
    """

    def __init__(  # noqa: PLR0913  # what it works with
        self,
        queue: RunQueue,
        nodes: NodeRegistry,
        work: Work[V],
        journal: Callable[[Append], Journal[V]],
        *,
        node: Node,
        lease_seconds: float,
        on_end: Callable[[Run], object] = repr,
        drained: Callable[[], Finished] = cancelled,
    ) -> None:
        self._queue = queue
        self._nodes = nodes
        self._work = work
        self._journal = journal
        self._node = node
        self._lease_seconds = lease_seconds
        self._on_end = on_end
        self._drained = drained
        self._going: dict[str, _Going] = {}
        self._cancelled: set[str] = set()
        self._ending: frozenset[str] = frozenset()
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.draining = False

    @property
    def going(self) -> int:
        """How many runs it works on."""
        return len(self._going)

    async def start(self) -> None:
        """Begins to take runs."""
        await self._nodes.heartbeat(self._node)
        loops = (self._claim, self._cancel, self._renew)
        self._tasks = [asyncio.create_task(self._always(one), name=f"worker {one.__name__}") for one in loops]

    async def drain(self, seconds: float) -> None:
        """Takes no more, lets those under way end within that time, cancels the rest, and waits until all are over."""
        self.draining = True
        await self._nodes.drain(self._node.id)
        if tasks := [going.task for going in self._going.values()]:
            await asyncio.wait(tasks, timeout=seconds)
        await self.aclose()

    async def aclose(self) -> None:
        """Cancels what is under way, writes down how it ended, and stops."""
        self.draining = True
        await self._nodes.drain(self._node.id)
        for _ in range(
            2
        ):  # what a claim that was under way has brought arrives, and begins: it is to be written down
            await asyncio.sleep(0)
        await finish(_gone(self._tasks))
        self._ending = frozenset(self._going.keys() - self._cancelled)
        await finish(_ended(list(self._going.values())))
        await self._nodes.leave(self._node.id)

    async def _always(self, loop: Callable[[], Awaitable[None]]) -> None:
        """Goes on whatever the database says: it may be back in a moment."""
        while True:
            try:
                await loop()
            except DatabaseError as error:
                logger.warning("%s", error.message)
                await asyncio.sleep(PAUSE_SECONDS)

    async def _claim(self) -> None:
        while (free := self._node.slots - len(self._going)) <= 0 or self.draining:
            self._changed.clear()
            await self._changed.wait()
        for lease in await self._queue.claim(self._node, slots=free, wait_seconds=CLAIM_SECONDS):
            task = asyncio.create_task(self._do(lease), name=f"run {lease.run.id}")
            going = self._going[lease.run.id] = _Going(lease, task)
            if lease.run.id in self._cancelled:
                going.stop()
        for _ in range(2):  # they begin, and what they send is on its way, before others are asked for
            await asyncio.sleep(0)

    async def _cancel(self) -> None:
        known = frozenset(self._cancelled)
        for run_id in await self._queue.cancels(self._node.id, known=known, wait_seconds=CLAIM_SECONDS):
            self._cancelled.add(run_id)
            if going := self._going.get(run_id):
                going.stop()

    async def _renew(self) -> None:
        await asyncio.sleep(self._lease_seconds / RENEWALS)
        self._cancelled &= self._going.keys()  # a run may be over by the time that its cancel was read
        await self._nodes.heartbeat(self._node)
        for going in list(self._going.values()):
            try:
                await going.lease.renew()
            except LeaseLostError:
                going.cancel()

    async def _do(self, lease: Lease) -> None:
        """Does one run to its end, which is written down whatever that is."""
        run_id = lease.run.id
        journal = self._journal(lease.append)
        try:
            ended = await self._ended(lease, journal.voice)
        except asyncio.CancelledError:
            ended = self._drained() if run_id in self._ending else cancelled()
        self._going[run_id].over = True
        try:
            await self._settle(lease, ended, journal)
        finally:
            self._going.pop(run_id, None)
            self._cancelled.discard(run_id)
            self._changed.set()

    async def _ended(self, lease: Lease, voice: V) -> Finished:
        try:
            return await self._work(lease.run, voice)
        except Exception as error:  # noqa: BLE001  # the run's record says what it was
            return failed(error)

    async def _settle(self, lease: Lease, ended: Finished, journal: Journal[V]) -> None:
        try:
            self._on_end(await lease.complete(ended, events=await journal.end()))
        except LeaseLostError:
            logger.warning("run %s is another's by now", lease.run.id)
        except DatabaseError as error:
            logger.error("how run %s ended could not be kept: %s", lease.run.id, error.message)  # noqa: TRY400


async def _gone(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancels tasks and waits until they are over; cancels again where libraries have swallowed it."""
    while left := [task for task in tasks if not task.done()]:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=CANCEL_SECONDS)


async def _ended(runs: Sequence[_Going]) -> None:
    """Cancels runs, once each, and waits until how they ended is written down."""
    for going in runs:
        going.cancel()
    if runs:
        await asyncio.wait([going.task for going in runs])
