from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sandbox_skills.daemon.access.keys import KeyRing
from sandbox_skills.daemon.access.scopes import Scope
from sandbox_skills.daemon.access.tokens import new_token
from sandbox_skills.daemon.errors import KeyInvalidError, KeyNotFoundError, TenantNotFoundError
from sandbox_skills.daemon.truth.keys import USED_EVERY_SECONDS, Keys
from sandbox_skills.daemon.truth.tenants import Tenants

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox_skills.daemon.access.keys import CreatedKey
    from sandbox_skills.daemon.truth.database import Database
    from sandbox_skills.daemon.truth.tenants import Tenant
    from tests.contract.dispatches import Clock

pytestmark = pytest.mark.anyio


@pytest.fixture
def ring(database: Database) -> KeyRing:
    return KeyRing(database)


async def made(ring: KeyRing, tenant: Tenant, *, expires_at: float | None = None) -> CreatedKey:
    return await ring.create(
        tenant.id, scopes={Scope.RUN}, name="laptop", expires_at=expires_at, actor="test"
    )


async def test_a_key_tells_whose_it_is_and_what_it_may(ring: KeyRing, tenant: Tenant) -> None:
    created = await made(ring, tenant)
    identity = await ring.identify(created.token)
    assert (identity.tenant, identity.key_id, identity.scopes) == (
        tenant,
        created.key.id,
        frozenset({Scope.RUN}),
    )
    assert identity.actor == f"key:{created.key.id}"


def holds(folder: Path, content: bytes) -> bool:
    return any(content in file.read_bytes() for file in folder.glob("daemon.db*"))


async def test_the_key_itself_is_nowhere_in_the_database(
    ring: KeyRing, tenant: Tenant, tmp_path: Path
) -> None:
    created = await made(ring, tenant)
    assert holds(tmp_path, created.key.prefix.encode())
    assert not holds(tmp_path, created.token.removeprefix(created.key.prefix).encode())
    assert created.token not in repr(created)


async def test_a_key_that_does_not_count_is_refused_alike(
    ring: KeyRing, tenant: Tenant, database: Database, clock: Clock
) -> None:
    expired = await made(ring, tenant, expires_at=clock.now + 1)
    revoked = await made(ring, tenant)
    await Keys(database).revoke(revoked.key.id, tenant_id=tenant.id, actor="test")
    good = await made(ring, tenant)
    clock.now += 1
    wrong = good.token[:-1] + ("0" if good.token[-1] != "0" else "1")
    told = set()
    for token in (expired.token, revoked.token, wrong, new_token().text, "", "ssk_", "é" * 100):
        with pytest.raises(KeyInvalidError) as caught:
            await ring.identify(token)
        told.add((caught.value.message, caught.value.hint))
    assert len(told) == 1
    await ring.identify(good.token)


async def test_keys_of_a_disabled_tenant_do_not_count_until_it_is_back(
    ring: KeyRing, tenant: Tenant, database: Database
) -> None:
    created = await made(ring, tenant)
    await Tenants(database).update(tenant.id, disabled=True, actor="test")
    with pytest.raises(KeyInvalidError):
        await ring.identify(created.token)
    await Tenants(database).update(tenant.id, disabled=False, actor="test")
    await ring.identify(created.token)


async def test_the_last_use_is_kept_to_the_minute(
    ring: KeyRing, tenant: Tenant, database: Database, clock: Clock
) -> None:
    created = await made(ring, tenant)
    first = clock.now
    await ring.identify(created.token)
    clock.now += USED_EVERY_SECONDS - 1
    await ring.identify(created.token)
    assert [key.last_used_at for key in await Keys(database).list(tenant.id)] == [first]
    clock.now += 1
    await ring.identify(created.token)
    assert [key.last_used_at for key in await Keys(database).list()] == [clock.now]


async def test_no_tenant_has_no_keys(ring: KeyRing, tenant: Tenant, database: Database) -> None:
    with pytest.raises(TenantNotFoundError):
        await ring.create("nobody", scopes={Scope.RUN}, actor="test")
    created = await made(ring, tenant)
    with pytest.raises(KeyNotFoundError):
        await Keys(database).revoke(created.key.id, tenant_id="other", actor="test")
    with pytest.raises(KeyNotFoundError):
        await Keys(database).revoke("nothing", actor="test")
    await ring.identify(created.token)


async def test_what_was_read_of_a_key_counts_until_anybody_changes_it_or_its_tenant(
    ring: KeyRing, tenant: Tenant, database: Database
) -> None:
    created = await made(ring, tenant)
    await ring.identify(created.token)  # the first use is noted with the key
    first = await ring.identify(created.token)
    assert await ring.identify(created.token) is first
    limits = {"concurrency": 3}
    await Tenants(database).update(tenant.id, limits=limits, actor="test")
    assert (await ring.identify(created.token)).tenant.limits == limits
    await Keys(database).revoke(created.key.id, actor="test")
    with pytest.raises(KeyInvalidError):
        await ring.identify(created.token)
