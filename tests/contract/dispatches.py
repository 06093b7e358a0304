"""The implementations of `daemon.dispatch.base` that the suite puts through it, each opened by one function.

Another one is added to OPENERS; the suite knows nothing of a database.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_skills.daemon.dispatch.bell import Bell
from sandbox_skills.daemon.dispatch.options import QueueOptions
from sandbox_skills.daemon.dispatch.sql_events import SqlEventLog
from sandbox_skills.daemon.dispatch.sql_nodes import SqlNodeRegistry
from sandbox_skills.daemon.dispatch.sql_queue import SqlRunQueue
from sandbox_skills.daemon.truth.changes import Change
from sandbox_skills.daemon.truth.database import Database, opened_database
from sandbox_skills.daemon.truth.ids import new_id
from sandbox_skills.daemon.truth.tables import SessionRow
from sandbox_skills.daemon.truth.tenants import Tenants

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from sandbox_skills.daemon.dispatch.base import EventLog, NodeRegistry, RunQueue


class Clock:
    """Seconds that pass only when a test says so."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True)
class Dispatch:
    """The three interfaces over one truth, and what it takes to try them."""

    queue: RunQueue
    events: EventLog
    nodes: NodeRegistry
    clock: Clock
    new_tenant: Callable[..., Awaitable[str]]
    new_session: Callable[[str], Awaitable[str]]


Opener = Callable[[Path, QueueOptions], AbstractAsyncContextManager[Dispatch]]


async def _new_session(database: Database, tenant_id: str) -> str:
    now = database.clock()
    row = SessionRow(
        id=new_id(),
        tenant_id=tenant_id,
        name="",
        state="active",
        ttl_seconds=60.0,
        created_at=now,
        last_used_at=now,
        expires_at=now + 60.0,
    )
    await database.write(Change.SESSION_CREATE, lambda session: session.add(row))
    return row.id


@asynccontextmanager
async def _sql(folder: Path, options: QueueOptions) -> AsyncGenerator[Dispatch]:
    clock, bell = Clock(), Bell()
    async with opened_database(folder / "daemon.db", clock=clock) as database:

        async def new_tenant(name: str = "acme", **limits: object) -> str:
            return (await Tenants(database).create(name, limits=limits, actor="test")).id

        async def new_session(tenant_id: str) -> str:
            return await _new_session(database, tenant_id)

        yield Dispatch(
            SqlRunQueue(database, bell, options),
            SqlEventLog(database, bell),
            SqlNodeRegistry(database),
            clock,
            new_tenant,
            new_session,
        )


OPENERS: dict[str, Opener] = {"sql": _sql}
