"""Artifacts: the list, one of them, and its bytes, which a browser only ever gets in a sandbox or as a download."""

from __future__ import annotations

from contextlib import AsyncExitStack
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from sandbox_skills.daemon.ui.headers import file_headers
from sandbox_skills.daemon.ui.views.artifacts import ArtifactList, artifact_page, artifact_row, usage_words
from sandbox_skills.daemon.ui.views.preview import PREVIEW_BYTES, Preview, preview_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from sandbox_skills.artifacts import Artifact, ArtifactStore
    from sandbox_skills.artifacts.store import ArtifactReader
    from sandbox_skills.daemon.ui.visits import Visit

PAGE = 50

MAX_VERSIONS = 100
"""Of one name on its page: the newest are what anybody looks for."""

MAX_DIGITS = 15


async def artifacts(visit: Visit) -> Response:
    """Shows the latest version of each artifact, by name."""
    store, prefix = visit.daemon.artifacts, visit.text("prefix")
    page = await store.list(prefix, after=visit.text("after") or None, limit=PAGE, tenant=visit.tenant)
    usage = await store.usage(tenant=visit.tenant)
    view = ArtifactList(
        usage=usage_words(usage),
        prefix=prefix,
        rows=tuple(artifact_row(one, visit.now) for one in page.artifacts),
        next="" if page.next is None else f"/artifacts?{urlencode({'prefix': prefix, 'after': page.next})}",
    )
    return visit.page("artifacts.html", here="/artifacts", title="Artifacts", view=view)


async def artifact(visit: Visit) -> Response:
    """Shows one version of an artifact."""
    store, name = visit.daemon.artifacts, visit.text("name")
    found = await store.stat(name, version_of(visit), tenant=visit.tenant)
    listed = await store.list(name, all_versions=True, limit=MAX_VERSIONS, tenant=visit.tenant)
    view = artifact_page(
        found,
        await _text(visit, store, found),
        [one for one in listed.artifacts if one.name == name],
        base=visit.base,
        now=visit.now,
    )
    return visit.page("artifact.html", here="/artifacts", title=view.file.name, view=view)


async def content(visit: Visit) -> Response:
    """Sends an artifact to be shown within a page."""
    return await _sent(visit, download=False)


async def download(visit: Visit) -> Response:
    """Sends an artifact to be kept."""
    return await _sent(visit, download=True)


def version_of(visit: Visit) -> int | None:
    """Returns the version that is asked for, None for the latest."""
    text = visit.text("version")
    if text and not (text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS):
        raise HTTPException(HTTPStatus.NOT_FOUND, "There is no such version.")
    return int(text) if text else None


async def _text(visit: Visit, store: ArtifactStore, found: Artifact) -> str | None:
    if preview_of(found.mime_type, found.size) not in {Preview.TEXT, Preview.TABLE}:
        return None
    _, data = await store.get(found.name, found.version, max_bytes=PREVIEW_BYTES, tenant=visit.tenant)
    return data.decode(errors="replace")


async def _sent(visit: Visit, *, download: bool) -> Response:
    stack = AsyncExitStack()
    opened = visit.daemon.artifacts.open(visit.text("name"), version_of(visit), tenant=visit.tenant)
    reader = await stack.enter_async_context(opened)
    found = reader.artifact
    headers = file_headers(found.name, found.mime_type, download=download)
    headers["Content-Length"] = str(found.size)
    return StreamingResponse(_chunks(stack, reader), headers=headers)


async def _chunks(stack: AsyncExitStack, reader: ArtifactReader) -> AsyncGenerator[bytes]:
    async with stack:
        async for chunk in reader.chunks():
            yield chunk
