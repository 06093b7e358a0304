from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sandbox_skills.daemon.dispatch.base import Node
from sandbox_skills.daemon.dispatch.bell import Bell
from sandbox_skills.daemon.dispatch.sql_nodes import SqlNodeRegistry
from sandbox_skills.daemon.dispatch.sql_queue import SqlRunQueue
from sandbox_skills.daemon.errors import DaemonRunningError
from sandbox_skills.daemon.truth.audit import AuditTrail
from sandbox_skills.daemon.truth.run import NewRun, RunState
from sandbox_skills.daemon.truth.runs import Runs
from sandbox_skills.daemon.truth.sessions import Sessions, SessionState
from sandbox_skills.daemon.working.recovery import Recovered, recover
from sandbox_skills.daemon.working.sole import sole_daemon
from sandbox_skills.engines.fake import FakeEngine
from sandbox_skills.errors import EngineUnavailableError

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from sandbox_skills.daemon.truth.database import Database
    from sandbox_skills.daemon.truth.tenants import Tenant
    from sandbox_skills.spec import SandboxId

pytestmark = pytest.mark.anyio

NODE = Node("before", slots=1)


class AwayEngine(FakeEngine):
    async def reap(self, keep: Collection[SandboxId]) -> list[SandboxId]:
        raise EngineUnavailableError("away")


async def test_what_was_going_ends_and_what_waited_waits(database: Database, tenant: Tenant) -> None:
    queue, nodes = SqlRunQueue(database, Bell()), SqlNodeRegistry(database)
    await nodes.heartbeat(NODE)
    for _ in range(2):
        await queue.submit(NewRun(tenant.id, {}))
    (lease,) = await queue.claim(NODE, slots=1)
    sessions = Sessions(database)
    made = await sessions.create(tenant_id=tenant.id, ttl_seconds=9.0, max_open=1, actor="key:1")
    await sessions.used(made.id, tenant_id=tenant.id, node=NODE.id)

    recovered = await recover(database, queue, nodes, FakeEngine())
    assert [run.id for run in recovered.runs] == [lease.run.id]
    ended = await Runs(database).get(lease.run.id, tenant_id=tenant.id)
    assert ended.outcome is not None
    assert (ended.outcome["type"], ended.outcome["reason"]) == ("sandbox_error", "restarted")
    assert [one.state for one in recovered.sessions] == [SessionState.CLOSED]
    assert await nodes.nodes() == []
    assert len(await Runs(database).list(tenant_id=tenant.id, state=RunState.QUEUED)) == 1
    entry = (await AuditTrail(database).page())[-1]
    assert (entry.action, entry.detail["runs"]) == ("daemon.recover", [lease.run.id])
    assert await recover(database, queue, nodes, FakeEngine()) == Recovered([], [], 0)


async def test_an_engine_that_is_away_holds_up_nothing(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    queue, nodes = SqlRunQueue(database, Bell()), SqlNodeRegistry(database)
    assert await recover(database, queue, nodes, AwayEngine()) == Recovered([], [], 0)
    assert "may be left" in caplog.text


def test_a_data_directory_has_one_daemon(tmp_path: Path) -> None:
    with sole_daemon(tmp_path / "data"), pytest.raises(DaemonRunningError):
        sole_daemon(tmp_path / "data").__enter__()
    with sole_daemon(tmp_path / "data"):
        pass
