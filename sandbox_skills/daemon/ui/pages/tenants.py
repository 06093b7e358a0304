"""Tenants, what they use, and the audit log: for an admin."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException

from sandbox_skills.daemon.access.scopes import Scope
from sandbox_skills.daemon.truth.audit import AuditTrail
from sandbox_skills.daemon.truth.ids import is_id
from sandbox_skills.daemon.truth.retention import DAY_SECONDS
from sandbox_skills.daemon.truth.run_tally import ended_of
from sandbox_skills.daemon.ui.views.figures import HOUR_SECONDS
from sandbox_skills.daemon.ui.views.tenants import AuditList, TenantList, audit_row, tenant_page, tenant_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.responses import Response

    from sandbox_skills.artifacts.store import Usage
    from sandbox_skills.daemon.truth.tenants import Tenant
    from sandbox_skills.daemon.ui.views.tenants import TenantRow
    from sandbox_skills.daemon.ui.visits import Visit

PAGE = 50
AUDIT_PAGE = 100

MAX_DAYS = 36_500
MAX_KEY_NAME = 200


async def tenants(visit: Visit) -> Response:
    """Shows every tenant with what it uses just now."""
    after = visit.text("after")
    found = await visit.daemon.tenants.list(after=after if is_id(after) else "", limit=PAGE + 1)
    rows = await _rows(visit, found[:PAGE])
    older = f"/tenants?after={found[PAGE - 1].id}" if len(found) > PAGE else ""
    return visit.page("tenants.html", here="/tenants", title="Tenants", view=TenantList(tuple(rows), older))


async def tenant(visit: Visit) -> Response:
    """Shows one tenant, its limits and its keys."""
    return await _tenant(visit)


async def create(visit: Visit) -> Response:
    """Makes a tenant, which has no key yet."""
    name = visit.fields.get("name", "").strip()
    made = await visit.daemon.admin.create_tenant(name, actor=visit.who.actor)
    return visit.to(f"/tenants/{made.id}")


async def switch(visit: Visit) -> Response:
    """Lets the keys of a tenant count no more, or again."""
    tenant_id = visit.part("tenant_id")
    disabled = visit.fields.get("disabled") == "yes"
    await visit.daemon.admin.update_tenant(tenant_id, disabled=disabled, actor=visit.who.actor)
    return visit.to(f"/tenants/{tenant_id}")


async def create_key(visit: Visit) -> Response:
    """Makes a key and shows it on this one page: it is kept nowhere, and a look back shows nothing."""
    scopes = [scope for scope in Scope if visit.fields.get(f"may:{scope}")]
    days = visit.fields.get("days", "").strip()
    if not scopes:
        raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, "Say what the key may do.")
    if days and not (days.isascii() and days.isdigit() and 0 < int(days[:5]) <= MAX_DAYS):
        raise HTTPException(
            HTTPStatus.UNPROCESSABLE_ENTITY, f"A key lives 1 to {MAX_DAYS} days, or for ever."
        )
    made = await visit.daemon.admin.create_key(
        visit.part("tenant_id"),
        scopes=scopes,
        name=visit.fields.get("name", "").strip()[:MAX_KEY_NAME],
        expires_in=int(days) * DAY_SECONDS if days else None,
        actor=visit.who.actor,
    )
    return await _tenant(visit, new_key=made.token)


async def revoke_key(visit: Visit) -> Response:
    """Ends a key at once."""
    tenant_id = visit.part("tenant_id")
    await visit.daemon.admin.revoke_key(visit.part("key_id"), tenant_id=tenant_id, actor=visit.who.actor)
    return visit.to(f"/tenants/{tenant_id}")


async def _tenant(visit: Visit, new_key: str = "") -> Response:
    found = await visit.daemon.tenants.get(visit.part("tenant_id"))
    row = (await _rows(visit, [found]))[0]
    keys, limits = await visit.daemon.admin.keys(found.id), visit.daemon.admin.limits_of(found)
    view = tenant_page(row, await _usage(visit, found), limits, keys, new_key=new_key, now=visit.now)
    return visit.page("tenant.html", here="/tenants", title=view.row.name, view=view)


async def audit(visit: Visit) -> Response:
    """Shows the audit log, the newest first."""
    trail = AuditTrail(visit.daemon.database)
    before = visit.text("before")
    upto = int(before) if before.isascii() and before.isdigit() and len(before) < PAGE else None
    entries = await trail.newest(before=upto, limit=AUDIT_PAGE + 1)
    older = f"/audit?before={entries[AUDIT_PAGE - 1].seq}" if len(entries) > AUDIT_PAGE else ""
    view = AuditList(tuple(audit_row(one, visit.now) for one in entries[:AUDIT_PAGE]), older)
    return visit.page("audit.html", here="/audit", title="Audit", view=view)


async def _rows(visit: Visit, found: Sequence[Tenant]) -> list[TenantRow]:
    depth = await visit.daemon.queue.depth()
    ended = await ended_of(visit.daemon.database, since=visit.now - HOUR_SECONDS)
    return [
        tenant_row(one, depth, await _usage(visit, one), ended=ended.get(one.id, 0), now=visit.now)
        for one in found
    ]


async def _usage(visit: Visit, tenant: Tenant) -> Usage:
    return await visit.daemon.artifacts.usage(tenant=tenant.id)
