"""What happens in a run, as updates of the page that shows it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import aclosing
from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.responses import Response, StreamingResponse

from sandbox_skills.daemon.api.streams import spoken
from sandbox_skills.daemon.errors import EventsLostError
from sandbox_skills.daemon.truth.run import FINISHED
from sandbox_skills.daemon.ui.headers import PAGE_HEADERS
from sandbox_skills.daemon.ui.views.updates import QUIET, End, message

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable

    from sandbox_skills.daemon.truth.run import RunEvent
    from sandbox_skills.daemon.ui.views.updates import Update
    from sandbox_skills.daemon.ui.visits import Visit

STREAM_SECONDS = 60.0
"""Then a browser asks again from where it was, and whether its key still counts is looked at again."""

MAX_NUMBER = 2**62

Updates = Callable[["RunEvent"], "Update | None"]
"""What an event means for a page; None: nothing."""


async def follow(events: Awaitable[AsyncGenerator[RunEvent]], update: Updates) -> Response:
    """Returns a stream of what `update` makes of events, up to the end of a run; raises as `events` does.

    204 is what a browser does not ask again after: there is nothing that it could be told.
    """
    try:
        found = await events
    except EventsLostError:
        return Response(status_code=HTTPStatus.NO_CONTENT, headers=dict(PAGE_HEADERS))

    def spell(event: RunEvent) -> bytes:
        return message(event.seq, End() if event.kind == FINISHED else update(event))

    headers = {**PAGE_HEADERS, "X-Accel-Buffering": "no"}
    return StreamingResponse(
        _for_a_while(spoken(found, spell, QUIET)), media_type="text/event-stream", headers=headers
    )


def after_of(visit: Visit) -> int:
    """Returns behind which event a browser wants to go on; what it heard last itself wins."""
    for text in (visit.request.headers.get("last-event-id", ""), visit.text("after")):
        if text.isascii() and text.isdigit():
            return min(int(text[:19]), MAX_NUMBER)
    return 0


async def _for_a_while(chunks: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    until = time.monotonic() + STREAM_SECONDS
    async with aclosing(chunks):
        async for chunk in chunks:
            yield chunk
            if time.monotonic() > until:
                return
