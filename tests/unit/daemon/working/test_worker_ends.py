"""A worker's last steps with a run: what it told while it went, and its end, which nothing keeps from the record."""

from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.daemon.dispatch.base import Accepted, Node
from sandbox_skills.daemon.dispatch.bell import Bell
from sandbox_skills.daemon.dispatch.options import QueueOptions
from sandbox_skills.daemon.dispatch.sql_events import SqlEventLog
from sandbox_skills.daemon.dispatch.sql_nodes import SqlNodeRegistry
from sandbox_skills.daemon.dispatch.sql_queue import SqlRunQueue
from sandbox_skills.daemon.truth.changes import Boundary, Change
from sandbox_skills.daemon.truth.database import opened_database
from sandbox_skills.daemon.truth.run import Finished, NewRun, Run
from sandbox_skills.daemon.truth.tenants import Tenants
from sandbox_skills.daemon.working.output_events import OutputEvents
from sandbox_skills.daemon.working.worker import Worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from sandbox_skills.daemon.working.worker import Work
    from sandbox_skills.engines.base import OutputSink

pytestmark = pytest.mark.anyio

ENDED = Finished({"type": "exited", "code": 0})


class Gate:
    """Holds the transaction that writes down how a run ended, until it is opened."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.open = threading.Event()

    def __call__(self, change: Change, boundary: Boundary) -> None:
        if (change, boundary) == (Change.RUN_COMPLETE, Boundary.BEGIN):
            self.reached.set()
            assert self.open.wait(10)


@dataclass
class Place:
    worker: Worker[OutputSink]
    queue: SqlRunQueue
    events: SqlEventLog
    tenant: str
    gate: Gate
    ended: asyncio.Queue[Run]

    async def submit(self) -> str:
        answer = await self.queue.submit(NewRun(self.tenant, {}))
        assert isinstance(answer, Accepted)
        return answer.run.id

    async def told(self, run_id: str) -> list[tuple[str, object]]:
        read = await self.events.read(run_id)
        return [(one.kind, one.data.get("text")) for one in read]


@asynccontextmanager
async def working(folder: Path, work: Work[OutputSink]) -> AsyncIterator[Place]:
    gate, bell, ended = Gate(), Bell(), asyncio.Queue[Run]()
    gate.open.set()
    # Durable: else the end of a run is written down by the loop's own thread, which the gate would hold.
    async with opened_database(folder / "daemon.db", durable=True, faults=gate) as database:
        queue, events = SqlRunQueue(database, bell, QueueOptions()), SqlEventLog(database, bell)
        worker = Worker(
            queue,
            SqlNodeRegistry(database),
            work,
            OutputEvents,
            node=Node("here", slots=2),
            lease_seconds=60,
            on_end=ended.put_nowait,
        )
        await worker.start()
        tenant = await Tenants(database).create("acme", actor="test")
        try:
            yield Place(worker, queue, events, tenant.id, gate, ended)
        finally:
            gate.open.set()
            await worker.aclose()


async def silent(_run: Run, _sink: OutputSink) -> Finished:
    return ENDED


def journals() -> list[str]:
    return [task.get_name() for task in asyncio.all_tasks() if task.get_name() == "journal"]


@pytest.mark.parametrize("how", ["cancel", "close"])
async def test_an_end_that_is_being_written_down_is_not_cancelled(tmp_path: Path, how: str) -> None:
    async with working(tmp_path, silent) as place:
        place.gate.open.clear()
        run_id = await place.submit()
        await asyncio.to_thread(place.gate.reached.wait, 10)
        if how == "close":
            last = asyncio.create_task(place.worker.aclose())
        else:
            last = asyncio.create_task(_cancelled(place, run_id))
        await asyncio.sleep(0.05)
        place.gate.open.set()
        await last
        run = await asyncio.wait_for(place.ended.get(), 10)
        assert (run.id, run.outcome) == (run_id, ENDED.outcome)
        assert place.worker.going == 0


async def _cancelled(place: Place, run_id: str) -> None:
    await place.queue.cancel(run_id, tenant_id=place.tenant)


async def test_a_run_that_is_cancelled_while_it_goes_ends_once_and_says_so(tmp_path: Path) -> None:
    began = asyncio.Event()

    async def endless(_run: Run, sink: OutputSink) -> Finished:
        sink("stdout", b"half")
        began.set()
        await asyncio.sleep(60)
        return ENDED

    async with working(tmp_path, endless) as place:
        run_id = await place.submit()
        await asyncio.wait_for(began.wait(), 10)
        await _cancelled(place, run_id)
        run = await asyncio.wait_for(place.ended.get(), 10)
        assert run.outcome == {"type": "stopped", "reason": "cancelled"}
        assert ("output", "half") in await place.told(run_id)
        assert place.ended.empty()
    assert journals() == []


async def test_what_is_written_is_in_the_log_while_the_run_goes_and_all_of_it_before_the_end(
    tmp_path: Path,
) -> None:
    heard, go = asyncio.Event(), asyncio.Event()

    async def talking(_run: Run, sink: OutputSink) -> Finished:
        sink("stdout", b"first \xc3")
        heard.set()
        await go.wait()
        sink("stdout", b"\xa4 last")
        sink("stderr", b"\xff")
        return ENDED

    async with working(tmp_path, talking) as place:
        run_id = await place.submit()
        await asyncio.wait_for(heard.wait(), 10)
        async with asyncio.timeout(10), aclosing(place.events.follow(run_id)) as events:
            async for event in events:
                if event.kind == "output":
                    go.set()
        await asyncio.wait_for(place.ended.get(), 10)
        told = await place.told(run_id)
    texts = [text for kind, text in told if kind == "output"]
    assert "".join(map(str, texts)) == "first \u00e4 last\ufffd"
    assert told[-1][0] == "finished"


async def test_a_run_that_says_nothing_needs_no_task_to_write_it(tmp_path: Path) -> None:
    seen: list[list[str]] = []

    async def looking(_run: Run, _sink: OutputSink) -> Finished:
        await asyncio.sleep(0)
        seen.append(journals())
        return ENDED

    async with working(tmp_path, looking) as place:
        await place.submit()
        await asyncio.wait_for(place.ended.get(), 10)
    assert seen == [[]]
