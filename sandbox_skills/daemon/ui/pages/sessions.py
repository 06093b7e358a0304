"""Sessions: the list, and one of them with its files and the runs in it."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from starlette.responses import Response, StreamingResponse

from sandbox_skills.daemon.service.runs import RunFilter
from sandbox_skills.daemon.truth.ids import is_id
from sandbox_skills.daemon.ui.headers import file_headers
from sandbox_skills.daemon.ui.views.runs import run_row
from sandbox_skills.daemon.ui.views.sessions import SessionList, session_page, session_row
from sandbox_skills.workspace.media_types import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from sandbox_skills.daemon.service.session_files import OpenedFile
    from sandbox_skills.daemon.ui.visits import Visit

PAGE = 50

RUNS = 20
"""Runs of a session on its page: a screen; the list of runs has them all."""


async def sessions(visit: Visit) -> Response:
    """Shows the tenant's sessions, newest first, closed ones too."""
    before = visit.text("before")
    found = await visit.daemon.sessions.list(
        state=None, before=before if is_id(before) else None, limit=PAGE + 1, tenant=visit.tenant
    )
    older = f"/sessions?before={found[PAGE - 1].id}" if len(found) > PAGE else ""
    view = SessionList(tuple(session_row(one, visit.now) for one in found[:PAGE]), older)
    return visit.page("sessions.html", here="/sessions", title="Sessions", view=view)


async def session(visit: Visit) -> Response:
    """Shows one session; its files only where they are asked for, since that is a use of it and gives it a sandbox."""
    session_id = visit.part("session_id")
    found = await visit.daemon.sessions.get(session_id, tenant=visit.tenant)
    listing = None
    if visit.text("files"):
        listing = await visit.daemon.files.list(session_id, tenant=visit.tenant)
        found = await visit.daemon.sessions.get(session_id, tenant=visit.tenant)
    runs = await visit.daemon.runs.list(
        RunFilter(session_id=found.id), before=None, limit=RUNS, tenant=visit.tenant
    )
    view = session_page(found, [run_row(run, visit.now) for run in runs], listing, visit.now)
    return visit.page("session.html", here="/sessions", title=view.row.name, view=view)


async def file(visit: Visit) -> Response:
    """Sends a file of a session, to be kept."""
    stack = AsyncExitStack()
    path = visit.text("path")
    opened = await stack.enter_async_context(
        visit.daemon.files.open(visit.part("session_id"), path, tenant=visit.tenant)
    )
    headers = file_headers(path, UNKNOWN, download=True)
    return StreamingResponse(_chunks(stack, opened), headers=headers)


async def close(visit: Visit) -> Response:
    """Ends a session with its files."""
    session_id = visit.part("session_id")
    await visit.daemon.sessions.close(session_id, tenant=visit.tenant, actor=visit.who.actor)
    return visit.to(f"/sessions/{session_id}")


async def _chunks(stack: AsyncExitStack, opened: OpenedFile) -> AsyncGenerator[bytes]:
    async with stack:
        async for chunk in opened.chunks:
            yield chunk
