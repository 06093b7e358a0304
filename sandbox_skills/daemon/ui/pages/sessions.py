"""Sessions: the list, and one of them with the runs in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.daemon.service.runs import RunFilter
from sandbox_skills.daemon.truth.ids import is_id
from sandbox_skills.daemon.truth.sessions import Sessions
from sandbox_skills.daemon.ui.views.runs import run_row
from sandbox_skills.daemon.ui.views.sessions import SessionList, session_page, session_row

if TYPE_CHECKING:
    from starlette.responses import Response

    from sandbox_skills.daemon.ui.visits import Visit

PAGE = 50

RUNS = 20
"""Runs of a session on its page: a screen; the list of runs has them all."""


async def sessions(visit: Visit) -> Response:
    """Shows the tenant's sessions, newest first, closed ones too."""
    before = visit.text("before")
    found = await Sessions(visit.daemon.database).list(
        tenant_id=visit.tenant, before=before if is_id(before) else None, limit=PAGE + 1
    )
    older = f"/sessions?before={found[PAGE - 1].id}" if len(found) > PAGE else ""
    view = SessionList(tuple(session_row(one, visit.now) for one in found[:PAGE]), older)
    return visit.page("sessions.html", here="/sessions", title="Sessions", view=view)


async def session(visit: Visit) -> Response:
    """Shows one session."""
    found = await Sessions(visit.daemon.database).get(visit.part("session_id"), tenant_id=visit.tenant)
    runs = await visit.daemon.runs.list(
        RunFilter(session_id=found.id), before=None, limit=RUNS, tenant=visit.tenant
    )
    view = session_page(found, [run_row(run, visit.now) for run in runs], visit.now)
    return visit.page("session.html", here="/sessions", title=view.row.name, view=view)
