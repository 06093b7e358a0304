"""Skills: sent, listed, looked at, fetched, deleted."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

from anyio import to_thread
from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from sandbox_skills.daemon.api.auth import Runner, SkillWriter
from sandbox_skills.daemon.api.dependencies import TheDaemon
from sandbox_skills.daemon.api.paging import DEFAULT_PAGE, After, Limit, cursor_of, text_behind
from sandbox_skills.daemon.api.skill_values import (
    ReportTold,
    SkillDetails,
    VersionTold,
    report_told,
    skill_told,
    version_told,
)
from sandbox_skills.daemon.api.uploads import received
from sandbox_skills.daemon.api.values import Page
from sandbox_skills.daemon.errors import CursorError
from sandbox_skills.daemon.service.runs import version_number
from sandbox_skills.daemon.service.skill_zip import packed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from starlette.types import Receive, Scope, Send

router = APIRouter(prefix="/v1/skills", tags=["skills"])

Name = Annotated[
    str,
    Path(min_length=1, max_length=256, description="The skill's name, or its id.", examples=["csv-report"]),
]
Version = Annotated[
    str,
    Path(
        min_length=1, max_length=32, description="The number of a version, or `latest`.", examples=["latest"]
    ),
]

_FORM: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "description": "One `file`, or any number of `files[]`.",
                    "properties": {
                        "file": {
                            "type": "string",
                            "format": "binary",
                            "description": "The skill's folder as a zip, or as a tar that may be packed.",
                        },
                        "files[]": {
                            "type": "array",
                            "items": {"type": "string", "format": "binary"},
                            "description": "Every file of the folder, each with its path as the file name.",
                        },
                    },
                }
            }
        },
    }
}
_ZIP: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A zip with the skill's folder in it; the same bytes for the same content.",
        "content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@router.post(
    "",
    status_code=201,
    summary="Send a skill",
    openapi_extra=_FORM,
    responses={200: {"model": VersionTold, "description": "The latest version has this content already."}},
)
async def add(request: Request, daemon: TheDaemon, who: SkillWriter, response: Response) -> VersionTold:
    """Makes what is sent the latest version of its skill, after it was checked. Nothing of it is run.

    Refused are names that lead elsewhere or clash, links that leave the skill, devices, and what unpacks to too much.
    """
    async with daemon.skills.receiving(tenant=who.tenant_id) as incoming:
        upload = await received(request, incoming, daemon.skills.limits)
        version, is_new = await daemon.skills.add(upload, incoming, tenant=who.tenant_id, actor=who.actor)
    if not is_new:
        response.status_code = 200
    response.headers["Location"] = (
        f"{router.prefix}/{quote(version.name, safe='')}/versions/{version.version}"
    )
    return version_told(version)


@router.post("/validate", summary="Check a skill", openapi_extra=_FORM)
async def validate(
    request: Request,
    daemon: TheDaemon,
    who: Runner,
    *,
    strict: Annotated[bool, Query(description="Make errors of what breaks the specification.")] = False,
) -> ReportTold:
    """Tells what is wrong with a skill that is sent, and keeps nothing of it."""
    async with daemon.skills.receiving(tenant=who.tenant_id) as incoming:
        upload = await received(request, incoming, daemon.skills.limits)
        return report_told(await daemon.skills.validate(upload, incoming, strict=strict))


@router.get("", summary="List skills")
async def listed(
    daemon: TheDaemon, who: Runner, limit: Limit = DEFAULT_PAGE, after: After = None
) -> Page[SkillDetails]:
    """Returns the skills that runs may use, the server's included, by name."""
    behind = text_behind(after) or ""
    entries = [one for one in await daemon.skills.entries(tenant=who.tenant_id) if one.spec.name > behind]
    rows = entries[:limit]
    more = cursor_of(rows[-1].spec.name) if len(entries) > limit else None
    return Page(items=[skill_told(one) for one in rows], next_cursor=more)


@router.get("/{name}", summary="Get a skill")
async def got(name: Name, daemon: TheDaemon, who: Runner) -> SkillDetails:
    """Returns one skill."""
    return skill_told(await daemon.skills.get(name, tenant=who.tenant_id))


@router.delete("/{name}", status_code=204, summary="Delete a skill")
async def deleted(name: Name, daemon: TheDaemon, who: SkillWriter) -> None:
    """Deletes every version of a skill. Runs that were accepted before still find theirs."""
    await daemon.skills.delete(name, tenant=who.tenant_id, actor=who.actor)


@router.get("/{name}/versions", summary="List the versions of a skill")
async def versions(
    name: Name, daemon: TheDaemon, who: Runner, limit: Limit = DEFAULT_PAGE, after: After = None
) -> Page[VersionTold]:
    """Returns the versions that are left, newest first; a skill of the server's has none."""
    behind = _number_behind(after)
    found = await daemon.skills.versions(name, tenant=who.tenant_id)
    found = [one for one in found if behind is None or one.version < behind]
    rows = found[:limit]
    more = cursor_of(str(rows[-1].version)) if len(found) > limit else None
    return Page(items=[version_told(one) for one in rows], next_cursor=more)


@router.get("/{name}/versions/{version}", summary="Get a version of a skill")
async def version_got(name: Name, version: Version, daemon: TheDaemon, who: Runner) -> VersionTold:
    """Returns one version of a skill that was sent."""
    number = version_number(version)
    return version_told(await daemon.skills.version(name, number, tenant=who.tenant_id))


@router.delete("/{name}/versions/{version}", status_code=204, summary="Delete a version of a skill")
async def version_deleted(name: Name, version: Version, daemon: TheDaemon, who: SkillWriter) -> None:
    """Deletes one version; its number is not given again."""
    number = version_number(version)
    if number is None:
        number = (await daemon.skills.version(name, None, tenant=who.tenant_id)).version
    await daemon.skills.delete(name, number, tenant=who.tenant_id, actor=who.actor)


@router.get(
    "/{name}/versions/{version}/content",
    summary="Fetch a version of a skill",
    response_class=StreamingResponse,
    responses=_ZIP,
)
async def content(name: Name, version: Version, daemon: TheDaemon, who: Runner) -> Response:
    """Sends the skill's folder as a zip."""
    stack = AsyncExitStack()
    try:
        opened = await stack.enter_async_context(
            daemon.skills.opened(name, version_number(version), tenant=who.tenant_id)
        )
        pieces = packed(opened.folder, limits=daemon.skills.limits.unpacked)
        # The first piece before the first byte of the answer: what cannot be packed is a problem, not half a zip.
        first = await to_thread.run_sync(next, pieces, b"")
    except BaseException:
        await stack.aclose()
        raise
    headers = {"Content-Disposition": f'attachment; filename="{opened.spec.id}.zip"'}
    if opened.version is not None:
        headers["ETag"] = f'"{opened.version.digest}"'
    return _Sent(_all(first, pieces), stack, headers)


class _Sent(StreamingResponse):
    """A zip on its way; `stack` is left when it has arrived, and when nobody takes it any more."""

    def __init__(self, pieces: AsyncIterator[bytes], stack: AsyncExitStack, headers: dict[str, str]) -> None:
        super().__init__(pieces, media_type="application/zip", headers=headers)
        self._stack = stack

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._stack:
            await super().__call__(scope, receive, send)


async def _all(first: bytes, rest: Iterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    while piece := await to_thread.run_sync(next, rest, b""):
        yield piece


def _number_behind(after: str | None) -> int | None:
    text = text_behind(after)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > len(str(2**31)):
        raise CursorError("the cursor is none of this list", hint="begin with the first page")
    return int(text)
