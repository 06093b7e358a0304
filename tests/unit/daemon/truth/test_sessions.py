from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sandbox_skills.daemon.errors import SessionNotFoundError
from sandbox_skills.daemon.truth.sessions import Session, SessionEnd, Sessions, SessionState
from sandbox_skills.errors import QuotaError, SessionClosedError

if TYPE_CHECKING:
    from sandbox_skills.daemon.truth.database import Database
    from sandbox_skills.daemon.truth.tenants import Tenant
    from tests.contract.dispatches import Clock

pytestmark = pytest.mark.anyio


@pytest.fixture
def sessions(database: Database) -> Sessions:
    return Sessions(database)


async def created(sessions: Sessions, tenant: Tenant, *, max_open: int = 10) -> Session:
    return await sessions.create(
        tenant_id=tenant.id, name="mine", ttl_seconds=60.0, max_open=max_open, actor="key:1"
    )


async def test_a_new_session_is_idle_and_has_its_time(
    sessions: Sessions, tenant: Tenant, clock: Clock
) -> None:
    made = await created(sessions, tenant)
    assert (made.state, made.snapshot, made.end) == (SessionState.IDLE, None, None)
    assert made.expires_at == clock.now + 60
    assert await sessions.get(made.id, tenant_id=tenant.id) == made


async def test_each_use_begins_its_time_anew(sessions: Sessions, tenant: Tenant, clock: Clock) -> None:
    made = await created(sessions, tenant)
    clock.now += 50
    used = await sessions.used(made.id, tenant_id=tenant.id, node="n")
    assert (used.state, used.node, used.expires_at) == (SessionState.ACTIVE, "n", clock.now + 60)


async def test_it_is_extended_and_never_shortened(sessions: Sessions, tenant: Tenant, clock: Clock) -> None:
    made = await created(sessions, tenant)
    assert (await sessions.extend(made.id, tenant_id=tenant.id, seconds=5)).expires_at == made.expires_at
    assert (await sessions.extend(made.id, tenant_id=tenant.id, seconds=500)).expires_at == clock.now + 500


async def test_idle_ones_have_a_snapshot_and_no_node(sessions: Sessions, tenant: Tenant) -> None:
    made = await created(sessions, tenant)
    await sessions.used(made.id, tenant_id=tenant.id, node="n")
    idle = await sessions.idled(made.id, tenant_id=tenant.id, snapshot="a.tar")
    assert (idle.state, idle.node, idle.snapshot) == (SessionState.IDLE, None, "a.tar")


async def test_a_closed_one_stays_closed(sessions: Sessions, tenant: Tenant) -> None:
    made = await created(sessions, tenant)
    closed = await sessions.close(made.id, tenant_id=tenant.id, actor="key:1")
    assert (closed.state, closed.end) == (SessionState.CLOSED, SessionEnd.CLOSED)
    again = await sessions.close(made.id, tenant_id=tenant.id, actor="key:1", end=SessionEnd.EXPIRED)
    assert again == closed
    with pytest.raises(SessionClosedError):
        await sessions.used(made.id, tenant_id=tenant.id, node="n")
    with pytest.raises(SessionClosedError):
        await sessions.extend(made.id, tenant_id=tenant.id, seconds=1)


async def test_those_whose_time_is_over_are_told(sessions: Sessions, tenant: Tenant, clock: Clock) -> None:
    made = await created(sessions, tenant)
    gone = await created(sessions, tenant)
    await sessions.close(gone.id, tenant_id=tenant.id, actor="key:1")
    assert await sessions.expired() == []
    clock.now += 60
    assert [one.id for one in await sessions.expired()] == [made.id]


async def test_only_so_many_are_open(sessions: Sessions, tenant: Tenant) -> None:
    first = await created(sessions, tenant, max_open=1)
    with pytest.raises(QuotaError):
        await created(sessions, tenant, max_open=1)
    await sessions.close(first.id, tenant_id=tenant.id, actor="key:1")
    await created(sessions, tenant, max_open=1)


async def test_another_tenants_is_not_there(sessions: Sessions, tenant: Tenant) -> None:
    made = await created(sessions, tenant)
    for call in (
        sessions.get(made.id, tenant_id="other"),
        sessions.used(made.id, tenant_id="other", node="n"),
        sessions.close(made.id, tenant_id="other", actor="key:2"),
        sessions.get("nothing", tenant_id=tenant.id),
    ):
        with pytest.raises(SessionNotFoundError):
            await call
    assert await sessions.list(tenant_id="other") == []


async def test_the_newest_are_listed_first(sessions: Sessions, tenant: Tenant) -> None:
    made = [await created(sessions, tenant) for _ in range(3)]
    listed = await sessions.list(tenant_id=tenant.id, limit=2)
    assert [one.id for one in listed] == [made[2].id, made[1].id]
    rest = await sessions.list(tenant_id=tenant.id, before=made[1].id)
    assert [one.id for one in rest] == [made[0].id]
    assert await sessions.list(tenant_id=None, state=SessionState.CLOSED) == []


async def test_after_a_restart_those_with_a_snapshot_go_on(sessions: Sessions, tenant: Tenant) -> None:
    kept, lost, idle = [await created(sessions, tenant) for _ in range(3)]
    await sessions.used(kept.id, tenant_id=tenant.id, node="n")
    await sessions.snapshotted(kept.id, tenant_id=tenant.id, snapshot="a.tar")
    await sessions.used(lost.id, tenant_id=tenant.id, node="n")
    assert {one.id for one in await sessions.lose()} == {kept.id, lost.id}
    assert (await sessions.get(kept.id, tenant_id=tenant.id)).state == SessionState.IDLE
    assert (await sessions.get(lost.id, tenant_id=tenant.id)).end == SessionEnd.LOST
    assert await sessions.get(idle.id, tenant_id=tenant.id) == idle
