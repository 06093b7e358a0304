"""Runs: asked for, looked at, listed, cancelled."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response

from sandbox_skills.daemon.api.auth import Runner
from sandbox_skills.daemon.api.dependencies import TheDaemon
from sandbox_skills.daemon.api.idempotency import Key, idempotency
from sandbox_skills.daemon.api.paging import DEFAULT_PAGE, After, Limit, cursor_of, id_behind
from sandbox_skills.daemon.api.rate_headers import rate_headers
from sandbox_skills.daemon.api.run_values import RunTold
from sandbox_skills.daemon.api.values import Id, Page, rfc3339, rfc3339_or_none
from sandbox_skills.daemon.service.run_order import RunOrder
from sandbox_skills.daemon.service.runs import RunFilter
from sandbox_skills.daemon.truth.run import Run, RunState

router = APIRouter(prefix="/v1/runs", tags=["runs"])

Wait = Annotated[
    float,
    Query(
        ge=0, le=60, allow_inf_nan=False, description="Seconds to wait for the end of the run; 0 does not."
    ),
]


@router.post(
    "",
    status_code=202,
    response_model=RunTold,
    summary="Run a command of a skill",
    responses={200: {"model": RunTold, "description": "The run has finished while the request waited."}},
)
async def submit(
    order: RunOrder,
    daemon: TheDaemon,
    who: Runner,
    request: Request,
    response: Response,
    wait: Wait = 0,
    key: Key = None,
) -> RunTold:
    """Queues a run and answers with it; with `wait`, once it has finished or the time is over.

    Whoever hangs up ends nothing: the run goes on, and is found by its id.
    """
    response.headers.update(rate_headers(daemon.admit(who.tenant_id, who.limits)))
    known = await idempotency(daemon, request, key)
    run = await daemon.runs.submit(
        order, tenant=who.tenant_id, actor=who.actor, idempotency=known, read=who.tenant
    )
    if wait > 0 and run.state is not RunState.FINISHED:
        run = await daemon.runs.outcome(run, seconds=wait)
    response.headers["Location"] = f"{router.prefix}/{run.id}"
    if wait > 0 and run.state is RunState.FINISHED:
        response.status_code = 200
    return told(run)


@router.get("", summary="List runs")
async def listed(
    daemon: TheDaemon,
    who: Runner,
    state: Annotated[Literal["queued", "running", "finished"] | None, Query()] = None,
    skill: Annotated[str | None, Query(max_length=256, description="Only of the skill of that name.")] = None,
    session_id: Annotated[str | None, Query(max_length=64, description="Only in that session.")] = None,
    limit: Limit = DEFAULT_PAGE,
    after: After = None,
) -> Page[RunTold]:
    """Returns the tenant's runs, newest first, without their results."""
    wanted = RunFilter(None if state is None else RunState(state), skill, session_id)
    runs = await daemon.runs.list(wanted, before=id_behind(after), limit=limit + 1, tenant=who.tenant_id)
    more = len(runs) > limit
    rows = runs[:limit]
    return Page(
        items=[told(run, whole=False) for run in rows], next_cursor=cursor_of(rows[-1].id) if more else None
    )


@router.get("/{run_id}", summary="Get a run")
async def got(run_id: Id, daemon: TheDaemon, who: Runner, wait: Wait = 0) -> RunTold:
    """Returns a run; with `wait`, once it has finished or the time is over."""
    if wait > 0:
        return told(await daemon.runs.wait(run_id, tenant=who.tenant_id, seconds=wait))
    return told(await daemon.runs.get(run_id, tenant=who.tenant_id))


@router.post("/{run_id}/cancel", status_code=202, summary="Cancel a run")
async def cancel(run_id: Id, daemon: TheDaemon, who: Runner) -> RunTold:
    """Asks for the end of a run. One that waits ends at once, one that has finished stays as it is."""
    return told(await daemon.runs.cancel(run_id, tenant=who.tenant_id))


def told(run: Run, *, whole: bool = True) -> RunTold:
    """Returns a run as it is told; what it wrote only where it is `whole`. Pure."""
    return RunTold.model_validate(
        {
            "id": run.id,
            "state": run.state.value,
            "skill": {
                "name": run.skill.name,
                "version": run.skill.version,
                "digest": run.skill.digest or (run.result or {}).get("digest", ""),
                "source": run.skill.source,
            },
            "session_id": run.session_id,
            "request": run.request,
            "outcome": run.outcome,
            "limits_hit": run.limits_hit,
            "result": run.result if whole else None,
            "created_at": rfc3339(run.created_at),
            "started_at": rfc3339_or_none(run.started_at),
            "finished_at": rfc3339_or_none(run.finished_at),
            "attempt": run.attempt,
        }
    )
