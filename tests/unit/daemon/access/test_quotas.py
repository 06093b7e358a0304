from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sandbox_skills.artifacts import ArtifactQuota, LocalArtifactStore
from sandbox_skills.daemon.access.quotas import TenantQuotas, artifact_quota
from sandbox_skills.daemon.truth.tenants import Tenant
from sandbox_skills.errors import QuotaError

if TYPE_CHECKING:
    from pathlib import Path

SERVER = ArtifactQuota(count=5, bytes=50)


def tenant(name: str, **limits: object) -> Tenant:
    return Tenant(name, name, limits, {}, 1.0, None)


def test_what_a_tenant_has_of_its_own_wins_one_by_one() -> None:
    assert artifact_quota(tenant("a"), SERVER) == SERVER
    assert artifact_quota(tenant("a", artifact_bytes=7), SERVER) == ArtifactQuota(5, 7)
    assert artifact_quota(tenant("a", artifact_count=900), SERVER) == ArtifactQuota(900, 50)


def test_limits_that_nobody_can_have_change_nothing() -> None:
    quotas = TenantQuotas(SERVER)
    quotas.learn(tenant("a", artifact_bytes=7))
    quotas.learn(tenant("a", artifact_bytes="many"))
    assert quotas.of("a") == ArtifactQuota(5, 7)
    assert quotas.of("b") == SERVER


@pytest.mark.anyio
async def test_the_store_asks_at_every_save(tmp_path: Path) -> None:
    quotas = TenantQuotas(SERVER)
    store = LocalArtifactStore(tmp_path, quota=quotas.of)
    await store.save("x", b"1234", tenant="a")
    quotas.learn(tenant("a", artifact_bytes=7))
    with pytest.raises(QuotaError):
        await store.save("x", b"1234", tenant="a")
    await store.save("x", b"1234", tenant="b")
    quotas.learn(tenant("a", artifact_bytes=8))
    await store.save("x", b"1234", tenant="a")
