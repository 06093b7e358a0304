"""Models that work on the server: asked, followed, allowed, stopped, gone on with."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Request, Response
from fastapi.responses import StreamingResponse

from sandbox_skills.daemon.api.agent_values import (
    AgentGiven,
    AgentTold,
    DecisionGiven,
    ResumeGiven,
    agent_told,
)
from sandbox_skills.daemon.api.auth import Runner
from sandbox_skills.daemon.api.dependencies import TheDaemon
from sandbox_skills.daemon.api.event_values import SSE
from sandbox_skills.daemon.api.idempotency import Key, idempotency
from sandbox_skills.daemon.api.paging import DEFAULT_PAGE, After, Limit, cursor_of, id_behind
from sandbox_skills.daemon.api.rate_headers import rate_headers
from sandbox_skills.daemon.api.run_events import LastId, Number, described, followed
from sandbox_skills.daemon.api.values import Id, Page
from sandbox_skills.daemon.truth.agents import Word

router = APIRouter(prefix="/v1/agents/runs", tags=["agents"])


@router.post("", status_code=202, summary="Let a model work")
async def create(
    given: AgentGiven,
    daemon: TheDaemon,
    who: Runner,
    request: Request,
    response: Response,
    key: Key = None,
) -> AgentTold:
    """Begins a conversation of a model with the tenant's skills. Whoever hangs up ends nothing."""
    response.headers.update(rate_headers(daemon.admit(who.tenant_id, who.limits)))
    known = await idempotency(daemon, request, key)
    run = await daemon.agents.create(
        given.kept(), given.input, tenant=who.tenant_id, actor=who.actor, idempotency=known
    )
    response.headers["Location"] = f"{router.prefix}/{run.agent.id}"
    return agent_told(run)


@router.get("", summary="List what models do")
async def listed(
    daemon: TheDaemon, who: Runner, limit: Limit = DEFAULT_PAGE, after: After = None
) -> Page[AgentTold]:
    """Returns the tenant's conversations, newest first."""
    found = await daemon.agents.list(before=id_behind(after), limit=limit + 1, tenant=who.tenant_id)
    rows = found[:limit]
    more = cursor_of(rows[-1].agent.id) if len(found) > limit else None
    return Page(items=[agent_told(one) for one in rows], next_cursor=more)


@router.get("/{run_id}", summary="Get what a model does")
async def got(run_id: Id, daemon: TheDaemon, who: Runner) -> AgentTold:
    """Returns a conversation as it stands."""
    return agent_told(await daemon.agents.get(run_id, tenant=who.tenant_id))


@router.get(
    "/{run_id}/events",
    summary="Follow a model",
    response_class=StreamingResponse,
    responses=described("What the model and its tools do, until it is done or waits."),
)
async def events(
    run_id: Id,
    daemon: TheDaemon,
    who: Runner,
    accept: Annotated[str, Header()] = SSE,
    after: Annotated[int | None, Number] = None,
    last_event_id: LastId = None,
) -> StreamingResponse:
    """Ends with `done`, then `finished`, of the latest leg. Numbers go on through all legs of a conversation."""
    start = after if after is not None else last_event_id or 0
    found = await daemon.agents.follow(run_id, tenant=who.tenant_id, after=start)
    return followed(found, accept, who)


@router.post("/{run_id}/approvals", status_code=202, summary="Allow or refuse a call")
async def decide(run_id: Id, given: DecisionGiven, daemon: TheDaemon, who: Runner) -> AgentTold:
    """Says whether a call that waits may run; the model goes on with that at once."""
    daemon.check_taking()
    word = Word(given.call_id, given.decision == "approve", given.reason)
    return agent_told(await daemon.agents.decide(run_id, word, tenant=who.tenant_id, actor=who.actor))


@router.post("/{run_id}/resume", status_code=202, summary="Go on")
async def resume(
    run_id: Id, given: ResumeGiven, daemon: TheDaemon, who: Runner, response: Response
) -> AgentTold:
    """Goes on with what the user says next, or where the model was when the server, or its provider, failed.

    Counts as a run.
    """
    response.headers.update(rate_headers(daemon.admit(who.tenant_id, who.limits)))
    return agent_told(await daemon.agents.resume(run_id, given.input, tenant=who.tenant_id, actor=who.actor))


@router.post("/{run_id}/cancel", status_code=202, summary="Stop a model")
async def cancel(run_id: Id, daemon: TheDaemon, who: Runner) -> AgentTold:
    """Asks for the end of what is under way; what has ended stays as it is."""
    return agent_told(await daemon.agents.cancel(run_id, tenant=who.tenant_id))
