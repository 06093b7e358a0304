"""Tenants, what they use, and the audit log: for an admin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.daemon.access.limits import tenant_limits
from sandbox_skills.daemon.truth.audit import AuditTrail
from sandbox_skills.daemon.truth.ids import is_id
from sandbox_skills.daemon.truth.keys import Keys
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


async def tenants(visit: Visit) -> Response:
    """Shows every tenant with what it uses just now."""
    after = visit.text("after")
    found = await visit.daemon.tenants.list(after=after if is_id(after) else "", limit=PAGE + 1)
    rows = await _rows(visit, found[:PAGE])
    older = f"/tenants?after={found[PAGE - 1].id}" if len(found) > PAGE else ""
    return visit.page("tenants.html", here="/tenants", title="Tenants", view=TenantList(tuple(rows), older))


async def tenant(visit: Visit) -> Response:
    """Shows one tenant, its limits and its keys."""
    found = await visit.daemon.tenants.get(visit.part("tenant_id"))
    row = (await _rows(visit, [found]))[0]
    keys = await Keys(visit.daemon.database).list(found.id)
    view = tenant_page(row, await _usage(visit, found), tenant_limits(found.limits), keys, now=visit.now)
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
