"""The first page: what goes on, and what the last hour was like."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.daemon.service.runs import RunFilter
from sandbox_skills.daemon.truth.run_tally import tally
from sandbox_skills.daemon.ui.views.figures import BAR_SECONDS, HOUR_SECONDS, Load, overview_page
from sandbox_skills.daemon.ui.views.runs import run_row
from sandbox_skills.engines.pool import PooledEngine

if TYPE_CHECKING:
    from starlette.responses import Response

    from sandbox_skills.daemon.dispatch.base import QueueDepth
    from sandbox_skills.daemon.ui.visits import Visit

RECENT = 12
"""Runs on the first page: they fit a screen."""

DRAINING = "The server ends: it takes nothing new, and waits for what is under way."


async def overview(visit: Visit) -> Response:
    """Shows an admin what all tenants do, everybody else what is theirs; the runs are one's own."""
    daemon = visit.daemon
    whose = None if visit.is_admin else visit.tenant
    hour = await tally(
        daemon.database, since=visit.now - HOUR_SECONDS, step_seconds=BAR_SECONDS, tenant_id=whose
    )
    recent = await daemon.runs.list(RunFilter(), before=None, limit=RECENT, tenant=visit.tenant)
    view = overview_page(
        load(visit, await daemon.queue.depth()),
        hour,
        [run_row(run, visit.now) for run in recent],
        notes=[DRAINING] if daemon.draining else [],
    )
    return visit.page("overview.html", here="/", title="Overview", view=view)


def load(visit: Visit, depth: QueueDepth) -> Load:
    """Returns what goes on: of everybody for an admin, else of the tenant, who learns no more of others than a sum."""
    engine, settings = visit.daemon.live.engine, visit.daemon.settings
    is_warm = isinstance(engine, PooledEngine) and visit.daemon.live.settings.pool.size > 0
    queued = depth.queued if visit.is_admin else depth.queued_of.get(visit.tenant, 0)
    return Load(
        running=depth.running if visit.is_admin else depth.running_of.get(visit.tenant, 0),
        slots=settings.daemon.slots,
        queued=queued,
        queued_elsewhere=depth.queued - queued,
        warm=engine.idle if isinstance(engine, PooledEngine) and is_warm else None,
    )
