from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sandbox_skills.daemon.errors import TenantExistsError, TenantInvalidError, TenantNotFoundError
from sandbox_skills.daemon.truth.tenants import Tenants

if TYPE_CHECKING:
    from sandbox_skills.daemon.truth.database import Database
    from tests.contract.dispatches import Clock

pytestmark = pytest.mark.anyio


@pytest.fixture
def tenants(database: Database) -> Tenants:
    return Tenants(database)


async def test_a_tenant_is_found_by_id_and_by_name(tenants: Tenants) -> None:
    made = await tenants.create("acme", limits={"queue": 1}, policy={"default": {}}, actor="cli")
    assert await tenants.get(made.id) == made
    assert await tenants.named("acme") == made
    assert await tenants.named(made.id) == made
    assert (made.limits, made.policy) == ({"queue": 1}, {"default": {}})


async def test_a_name_is_given_once(tenants: Tenants) -> None:
    await tenants.create("acme", actor="cli")
    with pytest.raises(TenantExistsError):
        await tenants.create("acme", actor="cli")
    assert len(await tenants.list()) == 1


@pytest.mark.parametrize("name", ["", "A", "a b", "-a", "a-", "a" * 64, "a/b", "ä", "a\n", "a.b"])
async def test_what_is_no_name_is_refused(tenants: Tenants, name: str) -> None:
    with pytest.raises(TenantInvalidError):
        await tenants.create(name, actor="cli")


@pytest.mark.parametrize("name", ["a", "0", "a-b", "a" * 63])
async def test_a_name_is_one_of_dns(tenants: Tenants, name: str) -> None:
    assert (await tenants.create(name, actor="cli")).name == name


async def test_only_what_was_said_is_changed(tenants: Tenants, clock: Clock) -> None:
    made = await tenants.create("acme", limits={"queue": 1}, actor="cli")
    changed = await tenants.update(made.id, policy={"default": {}}, actor="cli")
    assert (changed.limits, changed.policy, changed.disabled_at) == ({"queue": 1}, {"default": {}}, None)
    off = await tenants.update(made.id, disabled=True, actor="cli")
    clock.now += 1
    still = await tenants.update(made.id, disabled=True, actor="cli")
    assert off.disabled_at == still.disabled_at == clock.now - 1
    assert (await tenants.update(made.id, disabled=False, actor="cli")).disabled_at is None


async def test_no_tenant_is_told(tenants: Tenants) -> None:
    for call in (tenants.get("x"), tenants.named("x"), tenants.update("x", disabled=True, actor="cli")):
        with pytest.raises(TenantNotFoundError):
            await call


async def test_they_are_listed_by_pages(tenants: Tenants) -> None:
    made = [(await tenants.create(f"t{number}", actor="cli")).id for number in range(3)]
    assert [one.id for one in await tenants.list(limit=2)] == made[:2]
    assert [one.id for one in await tenants.list(after=made[1])] == made[2:]
