"""What happens in a run, while it happens and again later: as an event stream, or as lines of JSON."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse

from sandbox_skills.daemon.api.auth import Runner
from sandbox_skills.daemon.api.dependencies import TheDaemon
from sandbox_skills.daemon.api.event_values import NDJSON, SSE, EventTold, ndjson, sse
from sandbox_skills.daemon.api.streams import spoken

router = APIRouter(prefix="/v1/runs", tags=["runs"])

HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""Whatever stands in between is not to hold events back."""

Number = Annotated[int, Query(ge=0, le=2**62, description="Only events behind that number.")]
LastId = Annotated[
    int | None,
    Header(alias="Last-Event-ID", ge=0, le=2**62, description="As `after`, which wins; browsers send it."),
]


@router.get(
    "/{run_id}/events",
    summary="Follow a run",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "The events, until the run has finished. `Accept` chooses the form.",
            "content": {
                SSE: {"schema": {"type": "string"}},
                NDJSON: {"schema": {"$ref": "#/components/schemas/EventTold"}},
            },
        }
    },
)
async def events(
    run_id: str,
    daemon: TheDaemon,
    who: Runner,
    accept: Annotated[str, Header()] = SSE,
    after: Annotated[int | None, Number] = None,
    last_event_id: LastId = None,
) -> StreamingResponse:
    """Answers 410 where events behind that number are kept no more. Hanging up ends nothing."""
    start = after if after is not None else last_event_id or 0
    found = await daemon.runs.follow(run_id, tenant=who.tenant_id, after=start)
    if NDJSON in accept:
        return StreamingResponse(spoken(found, ndjson, b"\n"), media_type=NDJSON, headers=HEADERS)
    return StreamingResponse(spoken(found, sse, b": quiet\n\n"), media_type=SSE, headers=HEADERS)


MODELS = (EventTold,)
"""What the document describes and no route returns as a value."""
