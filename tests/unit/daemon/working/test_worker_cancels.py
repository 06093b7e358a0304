"""A cancel that is read before its run has come, or after it is over: the run ends, and nothing of it is kept."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.daemon.dispatch.base import Accepted, Node
from sandbox_skills.daemon.dispatch.bell import Bell
from sandbox_skills.daemon.dispatch.sql_nodes import SqlNodeRegistry
from sandbox_skills.daemon.dispatch.sql_queue import SqlRunQueue
from sandbox_skills.daemon.truth.run import Finished, NewRun, RunState
from sandbox_skills.daemon.truth.runs import Runs
from sandbox_skills.daemon.working.output_events import OutputEvents
from sandbox_skills.daemon.working.worker import Worker

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from sandbox_skills.daemon.dispatch.base import Lease
    from sandbox_skills.daemon.truth.database import Database
    from sandbox_skills.daemon.truth.run import Run
    from sandbox_skills.daemon.truth.tenants import Tenant
    from sandbox_skills.engines.base import OutputSink

pytestmark = pytest.mark.anyio

DONE = Finished({"type": "exited", "code": 0})
LONG_ENOUGH = 10.0
"""Of a wait that the test itself ends; nothing ever takes so long."""
LEASE_SECONDS = 0.1


class SlowQueue(SqlRunQueue):
    """A queue whose answers are a while on their way, as to another machine: until a test lets them through."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, Bell())
        self.claims, self.told = asyncio.Event(), asyncio.Event()
        self.has_claimed, self.has_told = asyncio.Event(), asyncio.Event()
        self.was_heard = asyncio.Event()

    async def claim(self, node: Node, *, slots: int, wait_seconds: float = 0.0) -> Sequence[Lease]:
        leases = await super().claim(node, slots=slots, wait_seconds=wait_seconds)
        if leases:
            self.has_claimed.set()
            await self.claims.wait()
        return leases

    async def cancels(
        self, node_id: str, *, known: frozenset[str] = frozenset(), wait_seconds: float = 0.0
    ) -> frozenset[str]:
        if known:
            self.was_heard.set()
        asked = await super().cancels(node_id, known=known, wait_seconds=wait_seconds)
        if asked:
            self.has_told.set()
            await self.told.wait()
        return asked


@asynccontextmanager
async def working(
    database: Database, queue: SlowQueue, may_end: asyncio.Event
) -> AsyncGenerator[Worker[OutputSink]]:
    async def work(run: Run, sink: OutputSink) -> Finished:
        await may_end.wait()
        return DONE

    node = Node("me", slots=1)
    nodes = SqlNodeRegistry(database)
    worker = Worker(queue, nodes, work, OutputEvents, node=node, lease_seconds=LEASE_SECONDS)
    await worker.start()
    try:
        yield worker
    finally:
        await worker.aclose()


async def submitted(queue: SlowQueue, tenant: Tenant) -> str:
    accepted = await queue.submit(NewRun(tenant.id, {}))
    assert isinstance(accepted, Accepted)
    return accepted.run.id


async def ended(database: Database, run_id: str, tenant: Tenant) -> Run:
    runs = Runs(database)
    while (run := await runs.get(run_id, tenant_id=tenant.id)).state is not RunState.FINISHED:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return run


async def test_a_cancel_that_is_read_after_the_end_is_forgotten(database: Database, tenant: Tenant) -> None:
    queue, may_end = SlowQueue(database), asyncio.Event()
    queue.claims.set()
    async with asyncio.timeout(LONG_ENOUGH), working(database, queue, may_end) as worker:
        run_id = await submitted(queue, tenant)
        await queue.has_claimed.wait()
        await queue.cancel(run_id, tenant_id=tenant.id)
        await queue.has_told.wait()
        may_end.set()
        assert (await ended(database, run_id, tenant)).outcome == DONE.outcome
        queue.told.set()
        await queue.was_heard.wait()
        while worker._cancelled:  # noqa: ASYNC110  # nobody is told of it
            await asyncio.sleep(0.01)


async def test_a_run_that_comes_after_its_cancel_is_cancelled(database: Database, tenant: Tenant) -> None:
    queue = SlowQueue(database)
    queue.told.set()
    async with asyncio.timeout(LONG_ENOUGH), working(database, queue, asyncio.Event()):
        run_id = await submitted(queue, tenant)
        await queue.has_claimed.wait()
        await queue.cancel(run_id, tenant_id=tenant.id)
        await queue.has_told.wait()
        queue.claims.set()
        run = await ended(database, run_id, tenant)
        assert run.outcome == {"type": "stopped", "reason": "cancelled"}
