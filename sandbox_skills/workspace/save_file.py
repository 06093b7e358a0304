"""One file of a workspace saved as an artifact, on request."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from sandbox_skills.artifacts import ArtifactMetadata
from sandbox_skills.errors import InputError
from sandbox_skills.spec import MIB, WORKSPACE
from sandbox_skills.workspace.input_refs import through_inputs_link
from sandbox_skills.workspace.layout import OUTPUT_DIR, RUNS_DIR, WORK_DIR, working_directory
from sandbox_skills.workspace.media_types import HEAD_BYTES, media_type
from sandbox_skills.workspace.paths import shown

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator
    from pathlib import PurePosixPath

    from sandbox_skills.artifacts import Artifact, ArtifactStore
    from sandbox_skills.engines.base import Sandbox

_PLACES = (WORK_DIR, OUTPUT_DIR, RUNS_DIR)
_ALLOWED = "work/, out/ or runs/"


def savable_path(text: str) -> PurePosixPath:
    """Returns the box path of the one file that `text` names. Pure.

    Raises InputError for a pattern and for what lies elsewhere in the workspace, PathEscapeError outside it.
    """
    if set("*?") & set(text):
        raise InputError(f"{shown(text)} is a pattern", hint="name one file; call it once for each")
    path = through_inputs_link(working_directory(text))
    if not any(place in path.parents for place in _PLACES):
        raise InputError(f"{shown(text)} is no file below {_ALLOWED}", hint=f"copy it to {_ALLOWED} first")
    return path


async def save_file(
    sandbox: Sandbox, path: PurePosixPath, store: ArtifactStore, *, tenant: str, max_bytes: int
) -> Artifact:
    """Saves a file as the next version of an artifact, named by its path in the workspace.

    Raises InputError where there is no such regular file or it is larger than `max_bytes`: nothing is saved then.
    Raises QuotaError, ArtifactStoreError and EngineError.
    """
    name = str(path.relative_to(WORKSPACE))
    async with sandbox.get(path, max_bytes=max_bytes + 1) as chunks:
        head = await anext(chunks, b"")
        metadata = ArtifactMetadata(mime_type=media_type(path.name, head[:HEAD_BYTES]))
        async with aclosing(_whole(name, head, chunks, max_bytes)) as content:
            return await store.save(name, content, metadata, tenant=tenant)


async def _whole(name: str, head: bytes, rest: AsyncIterator[bytes], max_bytes: int) -> AsyncGenerator[bytes]:
    size = len(head)
    yield head
    async for chunk in rest:
        size += len(chunk)
        if size > max_bytes:
            break
        yield chunk
    if size > max_bytes:
        raise InputError(
            f"{shown(name)} is larger than {max_bytes / MIB:g} MiB", hint="save a smaller file, or in parts"
        )
