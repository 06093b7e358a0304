from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sandbox_skills.daemon.dispatch.base import Accepted
from sandbox_skills.daemon.dispatch.bell import Bell
from sandbox_skills.daemon.dispatch.options import QueueOptions
from sandbox_skills.daemon.dispatch.sql_events import SqlEventLog
from sandbox_skills.daemon.dispatch.sql_queue import SqlRunQueue
from sandbox_skills.daemon.errors import AgentRunNotFoundError, EventsLostError, RunNotFoundError
from sandbox_skills.daemon.truth.agents import Agents, Beginning, LegRequest
from sandbox_skills.daemon.truth.audit import AuditTrail
from sandbox_skills.daemon.truth.ids import new_id
from sandbox_skills.daemon.truth.retention import BATCH, RecordAges, Records, RecordsRemoved
from sandbox_skills.daemon.truth.run import IdempotencyKey, NewRun, RunKind
from sandbox_skills.daemon.truth.runs import Runs
from sandbox_skills.daemon.truth.sessions import Sessions
from sandbox_skills.daemon.truth.tool_conversations import ToolConversations

if TYPE_CHECKING:
    from sandbox_skills.daemon.truth.agents import Agent
    from sandbox_skills.daemon.truth.database import Database
    from sandbox_skills.daemon.truth.tenants import Tenant
    from tests.contract.dispatches import Clock

pytestmark = pytest.mark.anyio

AGES = RecordAges(runs=100.0, events=10.0, sessions=100.0)


async def ended(database: Database, tenant: Tenant, *, key: str = "", session_id: str | None = None) -> str:
    queue = SqlRunQueue(database, Bell(), QueueOptions())
    idempotency = IdempotencyKey(key, "body") if key else None
    accepted = await queue.submit(NewRun(tenant.id, {}, session_id=session_id, idempotency=idempotency))
    assert isinstance(accepted, Accepted)
    await queue.cancel(accepted.run.id, tenant_id=tenant.id)
    return accepted.run.id


async def test_events_go_before_their_run_and_that_is_told(
    database: Database, tenant: Tenant, clock: Clock
) -> None:
    run_id = await ended(database, tenant)
    clock.now += 11
    assert await Records(database).retain(AGES) == RecordsRemoved(event_logs=1)
    assert (await Runs(database).get(run_id, tenant_id=tenant.id)).outcome is not None
    with pytest.raises(EventsLostError):
        await SqlEventLog(database, Bell()).read(run_id)
    assert await Records(database).retain(AGES) == RecordsRemoved()


async def test_old_runs_go_with_their_keys_and_stay_in_the_audit_log(
    database: Database, tenant: Tenant, clock: Clock
) -> None:
    run_id = await ended(database, tenant, key="k")
    clock.now += 101
    young = await ended(database, tenant, key="young")
    assert (await Records(database).retain(AGES)).runs == 1
    with pytest.raises(RunNotFoundError):
        await Runs(database).get(run_id, tenant_id=tenant.id)
    assert [run.id for run in await Runs(database).list(tenant_id=tenant.id)] == [young]
    assert f"run:{run_id}" in {entry.subject for entry in await AuditTrail(database).page()}
    await AuditTrail(database).verify()
    assert await ended(database, tenant, key="k") != run_id


async def test_what_waits_or_goes_stays_however_old(database: Database, tenant: Tenant, clock: Clock) -> None:
    queue = SqlRunQueue(database, Bell())
    await queue.submit(NewRun(tenant.id, {}))
    clock.now += 1000
    assert await Records(database).retain(AGES) == RecordsRemoved()


async def begun(database: Database, tenant: Tenant) -> Agent:
    """Returns a conversation whose first leg is over, and as old as that."""
    leg = LegRequest(new_id(), begin=Beginning({"model": ""}, "Hello.", "test"))
    queue = SqlRunQueue(database, Bell())
    accepted = await queue.submit(NewRun(tenant.id, leg.kept(), kind=RunKind.AGENT))
    assert isinstance(accepted, Accepted)
    await queue.cancel(accepted.run.id, tenant_id=tenant.id)
    return await Agents(database).of_run(accepted.run)


async def test_a_conversation_goes_when_nothing_of_it_changed_for_long(
    database: Database, tenant: Tenant, clock: Clock
) -> None:
    agents = Agents(database)
    old, young = await begun(database, tenant), await begun(database, tenant)
    clock.now += 99
    await agents.say(young.id, "Still there?")
    clock.now += 2
    assert (await Records(database).retain(AGES)).agents == 1
    assert [one.id for one in await agents.list(tenant_id=tenant.id, before=None, limit=9)] == [young.id]
    with pytest.raises(AgentRunNotFoundError):
        await agents.get(old.id)


async def test_a_conversation_of_tools_goes_when_no_server_took_it_for_long(
    database: Database, tenant: Tenant, clock: Clock
) -> None:
    first, second = (ToolConversations(database, node) for node in ("one", "two"))
    for name in ("old", "young"):
        assert not await first.taken(name, name, tenant_id=tenant.id)
    clock.now += 99
    assert await second.taken("young", "young", tenant_id=tenant.id)
    assert not await second.taken("young", "young", tenant_id=tenant.id)
    clock.now += 2
    assert await Records(database).retain(AGES) == RecordsRemoved(conversations=1)
    assert not await second.taken("old", "old", tenant_id=tenant.id)
    assert await first.taken("young", "young", tenant_id=tenant.id)


async def test_keys_go_when_their_time_is_over(database: Database, tenant: Tenant, clock: Clock) -> None:
    await ended(database, tenant, key="k")
    clock.now += 86_400
    removed = await Records(database).retain(RecordAges())
    assert (removed.idempotency_keys, removed.runs) == (1, 0)


async def test_a_closed_session_goes_after_its_runs(database: Database, tenant: Tenant, clock: Clock) -> None:
    sessions = Sessions(database)
    made = await sessions.create(tenant_id=tenant.id, ttl_seconds=1.0, max_open=1, actor="key:1")
    await ended(database, tenant, session_id=made.id)
    await sessions.close(made.id, tenant_id=tenant.id, actor="key:1")
    clock.now += 102
    assert (await Records(database).retain(RecordAges(runs=1000.0, sessions=100.0))).sessions == 0
    assert (await Records(database).retain(AGES)).sessions == 1
    assert await sessions.list(tenant_id=tenant.id) == []


async def test_many_go_in_steps(database: Database, tenant: Tenant, clock: Clock) -> None:
    for _ in range(BATCH + 1):
        await ended(database, tenant)
    clock.now += 101
    assert (await Records(database).retain(AGES)).runs == BATCH + 1
