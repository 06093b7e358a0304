"""Artifacts: what runs have kept, by name and version."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Response
from fastapi.responses import StreamingResponse
from pydantic import ConfigDict, Field

from sandbox_skills.artifacts import Artifact
from sandbox_skills.artifacts.names import MAX_NAME_BYTES, MAX_VERSION, parse_ref
from sandbox_skills.daemon.api.auth import Caller, Runner
from sandbox_skills.daemon.api.content import CONTENT_RESPONSES, Readable, content
from sandbox_skills.daemon.api.dependencies import TheDaemon
from sandbox_skills.daemon.api.paging import DEFAULT_PAGE, After, Limit, cursor_of, text_behind
from sandbox_skills.daemon.api.values import Page, Told, rfc3339
from sandbox_skills.daemon.errors import CursorError
from sandbox_skills.errors import ArtifactNameError, ArtifactNotFoundError

router = APIRouter(prefix="/v1/artifacts", tags=["artifacts"])

LATEST = "latest"

Name = Annotated[
    str,
    Path(
        min_length=1, max_length=MAX_NAME_BYTES, description="May have slashes.", examples=["out/report.csv"]
    ),
]
Version = Annotated[str, Path(max_length=18, description="A number, or `latest`.", examples=["latest"])]


class ArtifactTold(Told):
    """One version of a kept file."""

    model_config = ConfigDict(
        frozen=True,
        json_schema_extra={
            "examples": [
                {
                    "ref": "artifact://out/report.csv@0",
                    "name": "out/report.csv",
                    "version": 0,
                    "mime_type": "text/csv",
                    "size": 1482,
                    "sha256": "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8",
                    "skill": "csv-report",
                    "skill_digest": "3f0a5c7d9b1e2a4c6d8f0b1c3e5a7d9f3f0a5c7d9b1e2a4c6d8f0b1c3e5a7d9f",
                    "run_id": "f3a9c0d1e2b34455",
                    "created_at": "2026-11-28T09:00:00.000Z",
                }
            ]
        },
    )

    ref: str
    name: str
    version: int
    mime_type: str
    size: int
    sha256: str
    skill: str
    skill_digest: str = Field(description="Of the skill's content that wrote it; empty where no skill did.")
    run_id: str
    created_at: str


@router.get("", summary="List artifacts")
async def listed(
    daemon: TheDaemon,
    who: Runner,
    prefix: Annotated[str, Query(max_length=MAX_NAME_BYTES, description="Of the name.")] = "",
    limit: Limit = DEFAULT_PAGE,
    after: After = None,
) -> Page[ArtifactTold]:
    """Returns the latest version of each name, by name."""
    behind = _ref_behind(after)
    page = await daemon.artifacts.list(prefix, after=behind, limit=limit, tenant=who.tenant_id)
    cursor = None if page.next is None else cursor_of(page.next)
    return Page(items=[told(one) for one in page.artifacts], next_cursor=cursor)


@router.get(
    "/{name:path}/versions/{version}/content",
    response_class=StreamingResponse,
    responses=CONTENT_RESPONSES,
    summary="Get an artifact's bytes",
)
async def taken(
    name: Name,
    version: Version,
    daemon: TheDaemon,
    who: Runner,
    wanted: Annotated[str | None, Header(alias="Range")] = None,
) -> StreamingResponse:
    """Returns the bytes, or the range that is asked for; a browser saves them and runs nothing."""
    artifact = await _stat(daemon, name, version, who)
    file_name = name.rpartition("/")[2]
    opened = _readable(daemon, artifact, who)
    return await content(opened, wanted=wanted, name=file_name, media_type=artifact.mime_type)


@router.get("/{name:path}/versions/{version}", summary="Get a version of an artifact")
async def got_version(name: Name, version: Version, daemon: TheDaemon, who: Runner) -> ArtifactTold:
    """Returns what is known of one version."""
    return told(await _stat(daemon, name, version, who))


@router.delete("/{name:path}/versions/{version}", status_code=204, summary="Delete a version of an artifact")
async def delete_version(name: Name, version: Version, daemon: TheDaemon, who: Runner) -> Response:
    """Removes one version; its number is given to no other."""
    artifact = await _stat(daemon, name, version, who)
    await daemon.artifacts.delete(name, artifact.version, tenant=who.tenant_id)
    return Response(status_code=204)


@router.get("/{name:path}/versions", summary="List an artifact's versions")
async def versions(name: Name, daemon: TheDaemon, who: Runner) -> Page[ArtifactTold]:
    """Returns every version of one name, oldest first."""
    await daemon.artifacts.stat(name, tenant=who.tenant_id)
    found: list[Artifact] = []
    after: str | None = None
    while True:
        page = await daemon.artifacts.list(name, all_versions=True, after=after, tenant=who.tenant_id)
        found += [one for one in page.artifacts if one.name == name]
        after = page.next
        if after is None or len(found) < len(page.artifacts):
            return Page(items=[told(one) for one in found], next_cursor=None)


@router.get("/{name:path}", summary="Get an artifact")
async def got(name: Name, daemon: TheDaemon, who: Runner) -> ArtifactTold:
    """Returns what is known of the latest version."""
    return told(await daemon.artifacts.stat(name, tenant=who.tenant_id))


@router.delete("/{name:path}", status_code=204, summary="Delete an artifact")
async def delete(name: Name, daemon: TheDaemon, who: Runner) -> Response:
    """Removes every version of a name."""
    await daemon.artifacts.delete(name, tenant=who.tenant_id)
    return Response(status_code=204)


def _ref_behind(cursor: str | None) -> str | None:
    """Returns the reference that a cursor was made of, None for none; raises CursorError. Pure."""
    ref = text_behind(cursor)
    try:
        if ref is not None:
            parse_ref(ref)
    except ArtifactNameError as error:
        raise CursorError("the cursor is none of this list", hint="begin with the first page") from error
    return ref


async def _stat(daemon: TheDaemon, name: str, version: str, who: Caller) -> Artifact:
    if version == LATEST:
        return await daemon.artifacts.stat(name, tenant=who.tenant_id)
    if not (version.isascii() and version.isdigit()) or int(version) > MAX_VERSION:
        raise ArtifactNotFoundError(
            f"no version is called {version!r}", hint="versions are numbers, or latest"
        )
    return await daemon.artifacts.stat(name, int(version), tenant=who.tenant_id)


@asynccontextmanager
async def _readable(daemon: TheDaemon, artifact: Artifact, who: Caller) -> AsyncGenerator[Readable]:
    opened = daemon.artifacts.open(artifact.name, artifact.version, tenant=who.tenant_id)
    async with opened as reader:
        yield Readable(artifact.size, reader.chunks())


def told(artifact: Artifact) -> ArtifactTold:
    """Returns an artifact as it is told. Pure."""
    return ArtifactTold(
        ref=artifact.ref,
        name=artifact.name,
        version=artifact.version,
        mime_type=artifact.mime_type,
        size=artifact.size,
        sha256=artifact.sha256,
        skill=artifact.skill,
        skill_digest=artifact.skill_digest,
        run_id=artifact.run_id,
        created_at=rfc3339(artifact.created),
    )
