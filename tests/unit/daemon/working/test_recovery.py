from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text

from sandbox_skills.daemon.dispatch.base import Node
from sandbox_skills.daemon.dispatch.bell import Bell
from sandbox_skills.daemon.dispatch.sql_nodes import SqlNodeRegistry
from sandbox_skills.daemon.dispatch.sql_queue import SqlRunQueue
from sandbox_skills.daemon.errors import DaemonRunningError
from sandbox_skills.daemon.truth.audit import AuditTrail
from sandbox_skills.daemon.truth.run import NewRun, RunState
from sandbox_skills.daemon.truth.runs import Runs
from sandbox_skills.daemon.truth.sessions import Sessions, SessionState
from sandbox_skills.daemon.working.daemon import FIRST_TENANT, first_key
from sandbox_skills.daemon.working.recovery import Recovered, recover
from sandbox_skills.daemon.working.sole import sole_daemon
from sandbox_skills.engines.fake import FakeEngine
from sandbox_skills.errors import EngineUnavailableError, QuotaError
from tests.daemon_host import opened_host

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


async def test_a_start_that_died_before_the_first_key_is_taken_up(tmp_path: Path) -> None:
    async with opened_host(tmp_path) as host:
        await host.daemon.tenants.create(FIRST_TENANT, actor="daemon")
    async with opened_host(tmp_path) as host:
        token = await first_key(host.daemon)
        assert token is not None
        assert (await host.daemon.keys.identify(token)).tenant.name == FIRST_TENANT
        assert await first_key(host.daemon) is None


async def test_what_a_tenant_may_keep_holds_for_its_runs(tmp_path: Path) -> None:
    async with opened_host(tmp_path) as host:
        await host.tenant("acme", limits={"artifact_bytes": 0})
    async with opened_host(tmp_path) as host:
        (acme,) = await host.daemon.tenants.list()
        with pytest.raises(QuotaError):
            await host.daemon.live.artifacts.save("x", b"1", tenant=acme.id)


@pytest.mark.parametrize(("given", "level"), [({}, 1), ({"daemon": {"durable": True}}, 2)])
async def test_the_settings_say_whether_a_change_waits_for_the_disk(
    tmp_path: Path, given: dict[str, object], level: int
) -> None:
    async with opened_host(tmp_path, **given) as host:
        read = host.daemon.database.read
        assert await read(lambda session: session.scalar(text("PRAGMA synchronous"))) == level
