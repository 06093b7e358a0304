"""What each tenant may keep as artifacts: its own limits, else the server's. Known to threads, asked at every save."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from sandbox_skills.artifacts import ArtifactQuota
from sandbox_skills.daemon.access.limits import MAX_BYTES, MAX_COUNT, TenantLimits, tenant_limits
from sandbox_skills.daemon.errors import TenantInvalidError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox_skills.daemon.truth.tenants import Tenant


class TenantQuotas:
    """The quotas as they were last heard of: at the start of the daemon, and with each request of a tenant's."""

    def __init__(self, server: ArtifactQuota) -> None:
        self._server = server
        self._quotas: dict[str, ArtifactQuota] = {}
        self._learned: dict[str, Mapping[str, object]] = {}

    def learn(self, tenant: Tenant) -> None:
        """Takes note of what a tenant may keep; limits that nobody can have change nothing."""
        if self._learned.get(tenant.id) == tenant.limits:
            return
        with suppress(TenantInvalidError):
            self._quotas[tenant.id] = artifact_quota(tenant, self._server)
        self._learned[tenant.id] = tenant.limits

    def of(self, tenant_id: str) -> ArtifactQuota:
        """Returns what a tenant may keep."""
        return self._quotas.get(tenant_id, self._server)


def server_limits(server: ArtifactQuota) -> TenantLimits:
    """Returns what counts for a tenant that has no limits of its own. Pure."""
    usual = TenantLimits()
    return usual.model_copy(
        update={
            "artifact_count": min(server.count, MAX_COUNT),
            "artifact_bytes": min(server.bytes, MAX_BYTES),
        }
    )


def artifact_quota(tenant: Tenant, server: ArtifactQuota) -> ArtifactQuota:
    """Returns what a tenant may keep; raises TenantInvalidError. Pure."""
    limits = tenant_limits(tenant.limits)
    return ArtifactQuota(
        count=limits.artifact_count if "artifact_count" in tenant.limits else server.count,
        bytes=limits.artifact_bytes if "artifact_bytes" in tenant.limits else server.bytes,
    )
