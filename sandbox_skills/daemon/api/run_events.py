"""What happens in a run, while it happens and again later: as an event stream, or as lines of JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse

from sandbox_skills.daemon.api.auth import Caller, Runner
from sandbox_skills.daemon.api.dependencies import TheDaemon
from sandbox_skills.daemon.api.event_values import NDJSON, SSE, EventTold, ndjson, sse
from sandbox_skills.daemon.api.streams import spoken, while_allowed
from sandbox_skills.daemon.api.values import Id

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from sandbox_skills.daemon.truth.run import RunEvent

router = APIRouter(prefix="/v1/runs", tags=["runs"])

HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""Whatever stands in between is not to hold events back."""

Number = Annotated[int, Query(ge=0, le=2**62, description="Only events behind that number.")]
LastId = Annotated[
    int | None,
    Header(alias="Last-Event-ID", ge=0, le=2**62, description="As `after`, which wins; browsers send it."),
]


_STREAM = 'id: 3\nevent: output\ndata: {"seq":3,"type":"output","stream":"stdout","text":"3 rows\\n"}\n\n'


def described(what: str) -> dict[int | str, dict[str, Any]]:
    """Returns how the document describes the answer of a route that is followed."""
    content = {
        SSE: {"schema": {"type": "string"}, "example": _STREAM},
        NDJSON: {"schema": {"$ref": "#/components/schemas/EventTold"}},
    }
    return {200: {"description": f"{what} `Accept` chooses the form.", "content": content}}


def followed(found: AsyncGenerator[RunEvent], accept: str, who: Caller) -> StreamingResponse:
    """Returns the answer that tells events as they come, in the form that `accept` names, while the key counts."""
    if NDJSON in accept:
        chunks, kind = spoken(found, ndjson, b"\n"), NDJSON
    else:
        chunks, kind = spoken(found, sse, b": quiet\n\n"), SSE
    return StreamingResponse(while_allowed(chunks, who.counts), media_type=kind, headers=HEADERS)


@router.get(
    "/{run_id}/events",
    summary="Follow a run",
    response_class=StreamingResponse,
    responses=described("The events, until the run has finished."),
)
async def events(
    run_id: Id,
    daemon: TheDaemon,
    who: Runner,
    accept: Annotated[str, Header()] = SSE,
    after: Annotated[int | None, Number] = None,
    last_event_id: LastId = None,
) -> StreamingResponse:
    """Answers 410 where events behind that number are kept no more. Hanging up ends nothing."""
    start = after if after is not None else last_event_id or 0
    found = await daemon.runs.follow(run_id, tenant=who.tenant_id, after=start)
    return followed(found, accept, who)


MODELS = (EventTold,)
"""What the document describes and no route returns as a value."""
