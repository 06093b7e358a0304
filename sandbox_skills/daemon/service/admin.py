"""Who rules the server does it here: tenants, their keys, what they use, and what was done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sandbox_skills.artifacts import Usage as ArtifactUsage
from sandbox_skills.daemon.access.keys import KeyRing
from sandbox_skills.daemon.access.limits import TenantLimits, tenant_limits
from sandbox_skills.daemon.access.policies import tenant_policy
from sandbox_skills.daemon.truth.audit import AuditTrail
from sandbox_skills.daemon.truth.keys import Keys
from sandbox_skills.daemon.truth.tenants import Tenants
from sandbox_skills.daemon.truth.usage import Usage, usage_of_all

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from sandbox_skills.artifacts import ArtifactStore
    from sandbox_skills.daemon.access.keys import CreatedKey
    from sandbox_skills.daemon.access.scopes import Scope
    from sandbox_skills.daemon.truth.audit import AuditEntry
    from sandbox_skills.daemon.truth.database import Database
    from sandbox_skills.daemon.truth.keys import ApiKey
    from sandbox_skills.daemon.truth.tenants import Tenant


@dataclass(frozen=True, slots=True)
class TenantUsage:
    """What one tenant has and does."""

    tenant: Tenant
    usage: Usage
    artifacts: ArtifactUsage


class AdminService:
    """What an admin does. `actor` is how the audit log names who did it."""

    def __init__(
        self, database: Database, store: ArtifactStore | None = None, defaults: TenantLimits | None = None
    ) -> None:
        self._database = database
        self._tenants = Tenants(database)
        self._keys = Keys(database)
        self._ring = KeyRing(database)
        self._audit = AuditTrail(database)
        self._store = store
        self._defaults = defaults or TenantLimits()

    async def create_tenant(
        self,
        name: str,
        *,
        limits: Mapping[str, Any] | None = None,
        policy: Mapping[str, Any] | None = None,
        actor: str,
    ) -> Tenant:
        """Makes a tenant; raises TenantInvalidError for what none can have, TenantExistsError."""
        self._check(limits, policy)
        return await self._tenants.create(name, limits=limits, policy=policy, actor=actor)

    async def tenant(self, name: str) -> Tenant:
        """Returns a tenant by its id or name; raises TenantNotFoundError."""
        return await self._tenants.named(name)

    async def tenants(self, *, after: str = "", limit: int | None = None) -> Sequence[Tenant]:
        """Returns the tenants behind the id `after`, oldest first."""
        return await self._tenants.list(after=after, limit=limit)

    async def update_tenant(
        self,
        tenant_id: str,
        *,
        limits: Mapping[str, Any] | None = None,
        policy: Mapping[str, Any] | None = None,
        disabled: bool | None = None,
        actor: str,
    ) -> Tenant:
        """Changes what is not None; raises TenantNotFoundError, TenantInvalidError."""
        self._check(limits, policy)
        return await self._tenants.update(
            tenant_id, limits=limits, policy=policy, disabled=disabled, actor=actor
        )

    def limits_of(self, tenant: Tenant) -> TenantLimits:
        """Returns what counts for a tenant: its own limits, else the server's."""
        return tenant_limits(tenant.limits, self._defaults)

    async def create_key(
        self,
        tenant_id: str,
        *,
        scopes: Collection[Scope],
        name: str = "",
        expires_in: float | None = None,
        actor: str,
    ) -> CreatedKey:
        """Makes a key that counts for `expires_in` seconds, for ever with None; raises TenantNotFoundError."""
        expires_at = None if expires_in is None else self._database.clock() + expires_in
        return await self._ring.create(
            tenant_id, scopes=scopes, name=name, expires_at=expires_at, actor=actor
        )

    async def keys(self, tenant_id: str | None = None) -> Sequence[ApiKey]:
        """Returns the keys of a tenant, or of all for None; raises TenantNotFoundError."""
        if tenant_id is not None:
            await self._tenants.get(tenant_id)
        return await self._keys.list(tenant_id)

    async def revoke_key(self, key_id: str, *, tenant_id: str | None = None, actor: str) -> ApiKey:
        """Ends a key at once; raises KeyNotFoundError."""
        return await self._keys.revoke(key_id, tenant_id=tenant_id, actor=actor)

    async def audit(
        self, *, after: int = 0, limit: int = 100, tenant_id: str | None = None
    ) -> Sequence[AuditEntry]:
        """Returns entries of the audit log behind number `after`, oldest first."""
        return await self._audit.page(after=after, limit=limit, tenant_id=tenant_id)

    async def usage(self) -> Sequence[TenantUsage]:
        """Returns what every tenant has and does. Raises ArtifactStoreError."""
        counted = await usage_of_all(self._database)
        return [
            TenantUsage(tenant, counted.get(tenant.id, Usage()), await self._artifacts(tenant.id))
            for tenant in await self._tenants.list()
        ]

    async def _artifacts(self, tenant_id: str) -> ArtifactUsage:
        return ArtifactUsage() if self._store is None else await self._store.usage(tenant=tenant_id)

    def _check(self, limits: Mapping[str, Any] | None, policy: Mapping[str, Any] | None) -> None:
        if limits is not None:
            tenant_limits(limits, self._defaults)
        if policy is not None:
            tenant_policy(policy)
