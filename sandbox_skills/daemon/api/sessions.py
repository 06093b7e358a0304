"""Sessions: workspaces that last over many runs, and the files in them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Literal

from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import ConfigDict, Field

from sandbox_skills.daemon.api.auth import Caller, Runner
from sandbox_skills.daemon.api.content import BINARY, CONTENT_RESPONSES, Readable, content
from sandbox_skills.daemon.api.dependencies import TheDaemon
from sandbox_skills.daemon.api.paging import DEFAULT_PAGE, After, Limit, cursor_of, id_behind
from sandbox_skills.daemon.api.values import Given, Id, Page, Told, Words, rfc3339
from sandbox_skills.daemon.truth.sessions import Session, SessionState

router = APIRouter(prefix="/v1/sessions", tags=["sessions"])

LONGEST_SECONDS = 30 * 86_400.0
"""A month: what is to last longer is an artifact."""

Seconds = Annotated[float, Field(gt=0, le=LONGEST_SECONDS, allow_inf_nan=False)]
FilePath = Annotated[
    str,
    Path(
        min_length=1,
        description="Below `work/`, `out/` or `runs/` of the workspace.",
        examples=["work/sales.csv"],
    ),
]


class SessionGiven(Given, json_schema_extra={"examples": [{"name": "report", "ttl_seconds": 3600}]}):
    """A session to be made."""

    name: Words = Field(default="", max_length=256, description="For people; need not be unique.")
    ttl_seconds: Seconds = Field(default=3600.0, description="It closes when nobody used it for so long.")


class ExtensionGiven(Given, json_schema_extra={"examples": [{"seconds": 7200}]}):
    """How long a session is to live from now on."""

    seconds: Seconds


class SessionTold(Told):
    """A session. `active` has a box, `idle` keeps its files without one and wakes with the next use."""

    model_config = ConfigDict(
        frozen=True,
        json_schema_extra={
            "examples": [
                {
                    "id": "01JDZ6V7Z3M9QHTR4W8YB2C5KD",
                    "object": "session",
                    "name": "report",
                    "state": "idle",
                    "end": None,
                    "ttl_seconds": 3600,
                    "created_at": "2026-11-28T09:00:00.000Z",
                    "last_used_at": "2026-11-28T09:00:00.000Z",
                    "expires_at": "2026-11-28T10:00:00.000Z",
                }
            ]
        },
    )

    id: str
    object: Literal["session"] = "session"
    name: str
    state: Literal["active", "idle", "closed"]
    end: Literal["closed", "expired", "lost"] | None = Field(description="Why it is closed.")
    ttl_seconds: float
    created_at: str
    last_used_at: str
    expires_at: str


class SnapshotTold(
    Told,
    json_schema_extra={
        "examples": [
            {
                "session_id": "01JDZ6V7Z3M9QHTR4W8YB2C5KD",
                "files": 3,
                "folders": 1,
                "links": 0,
                "bytes": 20480,
                "skipped": {},
            }
        ]
    },
):
    """What was kept of a session; `skipped` has the paths that were not, and why."""

    session_id: str
    files: int
    folders: int
    links: int
    bytes: int
    skipped: dict[str, str]


class FileTold(Told, json_schema_extra={"examples": [{"path": "work/sales.csv", "size": 1482}]}):
    """A file of a session, by its path in the workspace."""

    path: str
    size: int


class FilesTold(Told):
    """The files of a session; `truncated` where there are more than are told."""

    items: list[FileTold]
    truncated: bool = Field(examples=[False])


@router.post("", status_code=201, summary="Make a session")
async def create(given: SessionGiven, daemon: TheDaemon, who: Runner, response: Response) -> SessionTold:
    """Makes a workspace that lasts. Its box is started with the first use."""
    daemon.check_taking()
    who.need_engine(daemon)
    session = await daemon.sessions.create(
        name=given.name, ttl_seconds=given.ttl_seconds, tenant=who.tenant_id, actor=who.actor
    )
    response.headers["Location"] = f"{router.prefix}/{session.id}"
    return told(session)


@router.get("", summary="List sessions")
async def listed(
    daemon: TheDaemon,
    who: Runner,
    state: Annotated[Literal["active", "idle", "closed"] | None, Query()] = None,
    limit: Limit = DEFAULT_PAGE,
    after: After = None,
) -> Page[SessionTold]:
    """Returns the tenant's sessions, newest first, closed ones too."""
    wanted = None if state is None else SessionState(state)
    rows = await daemon.sessions.list(
        state=wanted, before=id_behind(after), limit=limit + 1, tenant=who.tenant_id
    )
    items = [told(row) for row in rows[:limit]]
    return Page(items=items, next_cursor=cursor_of(items[-1].id) if len(rows) > limit else None)


@router.get("/{session_id}", summary="Get a session")
async def got(session_id: Id, daemon: TheDaemon, who: Runner) -> SessionTold:
    """Returns a session; looking at it is no use of it."""
    return told(await daemon.sessions.get(session_id, tenant=who.tenant_id))


@router.post("/{session_id}/extend", summary="Let a session live longer")
async def extend(session_id: Id, given: ExtensionGiven, daemon: TheDaemon, who: Runner) -> SessionTold:
    """Lets it live for so long from now, never shorter than it would."""
    return told(await daemon.sessions.extend(session_id, given.seconds, tenant=who.tenant_id))


@router.post("/{session_id}/snapshot", summary="Keep a session's files as they are")
async def snapshot(session_id: Id, daemon: TheDaemon, who: Runner) -> SnapshotTold:
    """Keeps what the session goes on from, should its box be lost. Waits for a run that is under way."""
    daemon.check_taking()
    taken = await daemon.sessions.snapshot(session_id, tenant=who.tenant_id)
    return SnapshotTold(
        session_id=session_id,
        files=taken.files,
        folders=taken.folders,
        links=taken.links,
        bytes=taken.bytes,
        skipped=dict(taken.skipped),
    )


@router.delete("/{session_id}", summary="Close a session")
async def close(session_id: Id, daemon: TheDaemon, who: Runner) -> SessionTold:
    """Ends the session, what runs in it, and its files."""
    return told(await daemon.sessions.close(session_id, tenant=who.tenant_id, actor=who.actor))


@router.get("/{session_id}/files", summary="List a session's files")
async def files(session_id: Id, daemon: TheDaemon, who: Runner) -> FilesTold:
    """Returns the files below `work/` and `out/`, by path."""
    found = await daemon.files.list(session_id, tenant=who.tenant_id)
    items = [FileTold(path=file.path, size=file.size) for file in found.files]
    return FilesTold(items=items, truncated=not found.whole)


@router.put(
    "/{session_id}/files/{path:path}",
    summary="Put a file into a session",
    openapi_extra={"requestBody": {"content": {BINARY: {"schema": {"type": "string", "format": "binary"}}}}},
)
async def put(session_id: Id, path: FilePath, request: Request, daemon: TheDaemon, who: Runner) -> FileTold:
    """Writes one file; it appears whole or not at all."""
    daemon.check_taking()
    file = await daemon.files.put(session_id, path, request.stream(), tenant=who.tenant_id)
    return FileTold(path=file.path, size=file.size)


@router.get(
    "/{session_id}/files/{path:path}",
    summary="Get a file of a session",
    response_class=StreamingResponse,
    responses=CONTENT_RESPONSES,
)
async def taken(
    session_id: Id,
    path: FilePath,
    daemon: TheDaemon,
    who: Runner,
    wanted: Annotated[str | None, Header(alias="Range")] = None,
) -> StreamingResponse:
    """Returns the bytes of one file, or the range of it that is asked for."""
    name = path.rpartition("/")[2]
    opened = _readable(daemon, session_id, path, who)
    return await content(opened, wanted=wanted, name=name, media_type=BINARY)


@asynccontextmanager
async def _readable(daemon: TheDaemon, session_id: Id, path: str, who: Caller) -> AsyncGenerator[Readable]:
    async with daemon.files.open(session_id, path, tenant=who.tenant_id) as file:
        yield Readable(file.size, file.chunks)


def told(session: Session) -> SessionTold:
    """Returns a session as it is told. Pure."""
    return SessionTold(
        id=session.id,
        name=session.name,
        state=session.state.value,
        end=None if session.end is None else session.end.value,
        ttl_seconds=session.ttl_seconds,
        created_at=rfc3339(session.created_at),
        last_used_at=rfc3339(session.last_used_at),
        expires_at=rfc3339(session.expires_at),
    )
