"""Tenants, keys, the audit log and usage, for keys with the scope admin."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Response

from sandbox_skills.daemon.api.admin_values import (
    ArtifactsUsed,
    AuditTold,
    KeyTold,
    NewKey,
    NewKeyTold,
    NewTenant,
    TenantChange,
    TenantTold,
    UsageList,
    UsageTold,
)
from sandbox_skills.daemon.api.auth import Admin
from sandbox_skills.daemon.api.dependencies import TheDaemon
from sandbox_skills.daemon.api.paging import DEFAULT_PAGE, After, Limit, cursor_of, id_behind, text_behind
from sandbox_skills.daemon.api.values import Id, Page, rfc3339, rfc3339_or_none
from sandbox_skills.daemon.errors import CursorError

if TYPE_CHECKING:
    from sandbox_skills.daemon.service.admin import AdminService, TenantUsage
    from sandbox_skills.daemon.truth.keys import ApiKey
    from sandbox_skills.daemon.truth.tenants import Tenant

router = APIRouter(prefix="/v1/admin", tags=["admin"])


@router.post("/tenants", status_code=201, summary="Make a tenant")
async def create_tenant(new: NewTenant, daemon: TheDaemon, who: Admin, response: Response) -> TenantTold:
    """Makes a tenant, which has no key yet."""
    made = await daemon.admin.create_tenant(new.name, limits=new.limits, policy=new.policy, actor=who.actor)
    response.headers["Location"] = f"{router.prefix}/tenants/{made.id}"
    return _tenant(made, daemon.admin)


@router.get("/tenants", summary="List tenants")
async def list_tenants(
    daemon: TheDaemon, _who: Admin, limit: Limit = DEFAULT_PAGE, after: After = None
) -> Page[TenantTold]:
    """Returns the tenants, oldest first."""
    found = await daemon.admin.tenants(after=id_behind(after) or "", limit=limit + 1)
    rows = found[:limit]
    return Page(
        items=[_tenant(one, daemon.admin) for one in rows],
        next_cursor=cursor_of(rows[-1].id) if len(found) > limit else None,
    )


@router.get("/tenants/{tenant_id}", summary="Get a tenant")
async def get_tenant(tenant_id: Id, daemon: TheDaemon, _who: Admin) -> TenantTold:
    """Returns a tenant, by its id or name."""
    return _tenant(await daemon.admin.tenant(tenant_id), daemon.admin)


@router.patch("/tenants/{tenant_id}", summary="Change a tenant")
async def update_tenant(tenant_id: Id, change: TenantChange, daemon: TheDaemon, who: Admin) -> TenantTold:
    """Changes limits, rules, or whether its keys count. What of its runs is under way goes on."""
    changed = await daemon.admin.update_tenant(
        tenant_id,
        limits=change.limits,
        policy=change.policy,
        disabled=change.disabled,
        actor=who.actor,
    )
    return _tenant(changed, daemon.admin)


@router.post("/tenants/{tenant_id}/keys", status_code=201, summary="Make a key")
async def create_key(tenant_id: Id, new: NewKey, daemon: TheDaemon, who: Admin) -> NewKeyTold:
    """Makes a key and shows it, this once."""
    made = await daemon.admin.create_key(
        tenant_id, scopes=new.scopes, name=new.name, expires_in=new.expires_in_seconds, actor=who.actor
    )
    return NewKeyTold(**_key(made.key).model_dump(), key=made.token)


@router.get("/tenants/{tenant_id}/keys", summary="List a tenant's keys")
async def list_keys(tenant_id: Id, daemon: TheDaemon, _who: Admin) -> Page[KeyTold]:
    """Returns every key of a tenant, oldest first, those that do not count any more too."""
    return Page(items=[_key(one) for one in await daemon.admin.keys(tenant_id)], next_cursor=None)


@router.delete("/tenants/{tenant_id}/keys/{key_id}", status_code=204, summary="Revoke a key")
async def revoke_key(tenant_id: Id, key_id: Id, daemon: TheDaemon, who: Admin) -> None:
    """Ends a key at once; it stays in the list."""
    await daemon.admin.revoke_key(key_id, tenant_id=tenant_id, actor=who.actor)


@router.get("/audit", summary="Read the audit log")
async def read_audit(
    daemon: TheDaemon,
    _who: Admin,
    tenant_id: Annotated[str | None, Query(max_length=64, description="Only of that tenant.")] = None,
    limit: Limit = DEFAULT_PAGE,
    after: After = None,
) -> Page[AuditTold]:
    """Returns what was done, oldest first. `sandbox-skills audit verify` tells whether it fits together."""
    found = await daemon.admin.audit(after=_seq_behind(after), limit=limit + 1, tenant_id=tenant_id)
    rows = found[:limit]
    return Page(
        items=[AuditTold.model_validate(entry.as_dict()) for entry in rows],
        next_cursor=cursor_of(str(rows[-1].seq)) if len(found) > limit else None,
    )


@router.get("/usage", summary="What tenants use")
async def read_usage(daemon: TheDaemon, _who: Admin) -> UsageList:
    """Returns what every tenant has and does."""
    return UsageList(items=[_usage(one, daemon.admin) for one in await daemon.admin.usage()])


def _seq_behind(cursor: str | None) -> int:
    text = text_behind(cursor) or "0"
    if not (text.isascii() and text.isdigit()) or len(text) > _MAX_DIGITS:
        raise CursorError("the cursor is none of this list", hint="begin with the first page")
    return int(text)


_MAX_DIGITS = 18
"""Of a number of the log: what fits the integers of every database."""


def _tenant(tenant: Tenant, admin: AdminService) -> TenantTold:
    return TenantTold(
        id=tenant.id,
        name=tenant.name,
        limits=dict(tenant.limits),
        effective_limits=admin.limits_of(tenant).model_dump(mode="json"),
        policy=dict(tenant.policy),
        created_at=rfc3339(tenant.created_at),
        disabled_at=rfc3339_or_none(tenant.disabled_at),
    )


def _key(key: ApiKey) -> KeyTold:
    return KeyTold.model_validate(
        {
            **key.as_dict(),
            "created_at": rfc3339(key.created_at),
            "expires_at": rfc3339_or_none(key.expires_at),
            "revoked_at": rfc3339_or_none(key.revoked_at),
            "last_used_at": rfc3339_or_none(key.last_used_at),
        }
    )


def _usage(one: TenantUsage, admin: AdminService) -> UsageTold:
    kept = one.artifacts
    return UsageTold(
        tenant_id=one.tenant.id,
        name=one.tenant.name,
        **asdict(one.usage),
        artifacts=ArtifactsUsed(names=kept.names, count=kept.count, bytes=kept.bytes),
        limits=admin.limits_of(one.tenant).model_dump(mode="json"),
    )
