"""Runs: the list, one of them with its log as it grows, cancelled and run again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from sandbox_skills.daemon.errors import EventsLostError
from sandbox_skills.daemon.service.run_order import RunOrder
from sandbox_skills.daemon.service.runs import RunFilter
from sandbox_skills.daemon.truth.ids import is_id
from sandbox_skills.daemon.truth.run import RunState
from sandbox_skills.daemon.ui.streams import after_of, follow
from sandbox_skills.daemon.ui.views.files import run_files
from sandbox_skills.daemon.ui.views.runs import (
    RunList,
    log_pieces,
    result_pieces,
    run_page,
    run_row,
    run_update,
)
from sandbox_skills.errors import ArtifactNotFoundError, RequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.responses import Response

    from sandbox_skills.artifacts import Artifact
    from sandbox_skills.daemon.truth.run import Run, RunEvent
    from sandbox_skills.daemon.ui.views.runs import LogPiece
    from sandbox_skills.daemon.ui.visits import Visit

PAGE = 50
"""Rows of a list."""

EVENTS = 5000
"""Events of a log that a page begins with: with lines of a usual length more than it shows."""


async def runs(visit: Visit) -> Response:
    """Shows the tenant's runs, newest first, by state, skill and session."""
    state, skill, session = visit.text("state"), visit.text("skill").strip(), visit.text("session").strip()
    before = visit.text("before")
    wanted = RunFilter(
        state=RunState(state) if state in set(RunState) else None,
        skill=skill or None,
        session_id=session or None,
    )
    found = await visit.daemon.runs.list(
        wanted, before=before if is_id(before) else None, limit=PAGE + 1, tenant=visit.tenant
    )
    asked = {"state": state, "skill": skill, "session": session}
    older = {**asked, "before": found[PAGE - 1].id} if len(found) > PAGE else {}
    view = RunList(
        rows=tuple(run_row(run, visit.now) for run in found[:PAGE]),
        state=state,
        skill=skill,
        session=session,
        first_page=not before,
        next=f"/runs?{urlencode({name: text for name, text in older.items() if text})}" if older else "",
    )
    return visit.page("runs.html", here="/runs", title="Runs", view=view)


async def run(visit: Visit) -> Response:
    """Shows one run, with what it printed so far."""
    found = await _run(visit)
    output = await _output(visit, found)
    artifacts = await _artifacts(visit, found)
    prefix = str(found.request.get("artifact_prefix", ""))
    files = run_files(found.result or {}, artifacts, prefix=prefix, base=visit.base)
    view = run_page(found, output, files, base=visit.base, now=visit.now)
    return visit.page("run.html", here="/runs", title=f"Run of {view.skill}", view=view)


async def stream(visit: Visit) -> Response:
    """Sends what a run prints as it prints it."""
    run_id = visit.part("run_id")
    events = visit.daemon.runs.follow(run_id, tenant=visit.tenant, after=after_of(visit))
    return await follow(events, run_update)


async def cancel(visit: Visit) -> Response:
    """Asks for the end of a run."""
    await visit.daemon.runs.cancel(visit.part("run_id"), tenant=visit.tenant)
    return visit.to(f"/runs/{visit.part('run_id')}")


async def rerun(visit: Visit) -> Response:
    """Asks for the same once more, as a run of its own: of the latest version where none was named."""
    visit.admit()
    found = await _run(visit)
    order = RunOrder.model_validate(found.request)
    new = await visit.daemon.runs.submit(order, tenant=visit.tenant, actor=visit.who.actor)
    return visit.to(f"/runs/{new.id}")


async def _run(visit: Visit) -> Run:
    return await visit.daemon.runs.get(visit.part("run_id"), tenant=visit.tenant)


async def _output(visit: Visit, found: Run) -> Sequence[LogPiece]:
    """Returns the end of the log; what the result holds where events are not kept any more."""
    try:
        events = await visit.daemon.events.read(
            found.id, after=max(0, found.event_last - EVENTS), limit=EVENTS
        )
    except EventsLostError as error:
        events = await _still_kept(visit, found, error.first - 1)
    kept = [event for event in events if event.seq <= found.event_last]
    return log_pieces(kept) or result_pieces(found.result)


async def _still_kept(visit: Visit, found: Run, after: int) -> Sequence[RunEvent]:
    try:
        return await visit.daemon.events.read(found.id, after=after, limit=EVENTS)
    except EventsLostError:
        return ()


async def _artifacts(visit: Visit, found: Run) -> Sequence[Artifact]:
    """Returns the artifacts of a run that are still there."""
    kept = (found.result or {}).get("artifact_files") or ()

    async def stat(name: str, version: int) -> Artifact | None:
        try:
            return await visit.daemon.artifacts.stat(name, version, tenant=visit.tenant)
        except (ArtifactNotFoundError, RequestError):
            return None

    found_now = await asyncio.gather(*(stat(one["name"], one["version"]) for one in kept))
    return [one for one in found_now if one is not None]
