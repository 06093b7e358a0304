"""What an MCP client can read: the files of skills as `skill://name/path`, and artifacts as `artifact://name@version`."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from anyio import to_thread
from mcp import types

from sandbox_skills.catalog import list_skill_resources, read_skill_resource
from sandbox_skills.catalog.skill_file import FILENAME
from sandbox_skills.catalog.text import one_line
from sandbox_skills.errors import InputError
from sandbox_skills.spec import MIB
from sandbox_skills.workspace.media_types import HEAD_BYTES, inline_text, media_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandbox_skills.artifacts import ArtifactStore
    from sandbox_skills.catalog import SkillSpec
    from sandbox_skills.toolsets.offered import OfferedSkills

SKILL_SCHEME = "skill://"
ARTIFACT_SCHEME = "artifact://"

MAX_READ = 4 * MIB
"""Bytes of one resource that are given: a client puts them into its model's context, or shows them."""

PAGE = 200
"""Resources of one page of a listing."""

_MAX_SHOWN = 200
"""Characters of an address that are repeated in an error."""


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources of one tenant. Skills are those that are offered; None keeps no artifacts."""

    skills: OfferedSkills
    artifacts: ArtifactStore | None
    tenant: str

    async def page(self, cursor: str | None) -> types.ListResourcesResult:
        """Returns one page of the skills' files; raises InputError for a cursor that is none of ours."""
        start = _position(cursor)
        rows = await to_thread.run_sync(self._rows, start, start + PAGE + 1)
        more = str(start + PAGE) if len(rows) > PAGE else None
        return types.ListResourcesResult(resources=rows[:PAGE], next_cursor=more)

    async def read(self, uri: str) -> types.ReadResourceResult:
        """Returns the content of one resource.

        Raises InputError for an address that leads nowhere or to more than `MAX_READ` bytes, SkillNotFoundError,
        PathEscapeError, ArtifactNotFoundError.
        """
        if uri.startswith(SKILL_SCHEME):
            name, data = await self._skill_file(uri.removeprefix(SKILL_SCHEME))
        elif uri.startswith(ARTIFACT_SCHEME) and self.artifacts is not None:
            name, data = await self._artifact(uri.removeprefix(ARTIFACT_SCHEME), self.artifacts)
        else:
            raise InputError(
                f"there is no resource {one_line(uri, _MAX_SHOWN)!r}",
                hint="Addresses are skill://NAME/PATH and artifact://NAME@VERSION.",
            )
        return types.ReadResourceResult(contents=[_contents(uri, name, data)])

    def _rows(self, start: int, stop: int) -> list[types.Resource]:
        return list(islice(self._files(), start, stop))

    def _files(self) -> Iterator[types.Resource]:
        for spec in self.skills.list():
            yield _resource(spec, FILENAME, one_line(spec.description, 1024))
            found = list_skill_resources(spec)
            for folder, names in (
                ("scripts/", found.scripts),
                ("references/", found.references),
                ("assets/", found.assets),
                ("", found.other),
            ):
                yield from (_resource(spec, f"{folder}{name}") for name in names)

    async def _skill_file(self, address: str) -> tuple[str, bytes]:
        name, _, path = address.partition("/")
        spec = await to_thread.run_sync(self.skills.require, unquote(name))
        read = partial(read_skill_resource, spec, unquote(path), max_bytes=MAX_READ)
        page = await to_thread.run_sync(read)
        return path, _whole(page.data, page.size)

    async def _artifact(self, address: str, store: ArtifactStore) -> tuple[str, bytes]:
        name, _, version = address.rpartition("@")
        if not name or not version.isascii() or not version.isdigit():
            name, version = address, ""
        number = int(version) if version else None
        artifact, data = await store.get(unquote(name), number, max_bytes=MAX_READ, tenant=self.tenant)
        return artifact.name, _whole(data, artifact.size)


def _whole(data: bytes, size: int) -> bytes:
    if len(data) < size:
        raise InputError(
            f"the resource has {size:,} bytes, and at most {MAX_READ:,} can be read here",
            hint="Let a skill read it in its workspace.",
        )
    return data


def _position(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > len(str(10**9)):
        raise InputError("this is no cursor of a listing of resources", hint="List from the beginning.")
    return int(cursor)


def _resource(spec: SkillSpec, path: str, description: str | None = None) -> types.Resource:
    return types.Resource(
        name=f"{spec.id}/{path}",
        uri=f"{SKILL_SCHEME}{quote(spec.id, safe='')}/{quote(path)}",
        description=description,
        mime_type="text/markdown" if path.endswith(".md") else None,
    )


def _contents(uri: str, name: str, data: bytes) -> types.TextResourceContents | types.BlobResourceContents:
    mime = media_type(name, data[:HEAD_BYTES])
    text = inline_text(data, mime, complete=True)
    if text is not None:
        return types.TextResourceContents(uri=uri, mime_type=mime, text=text)
    return types.BlobResourceContents(uri=uri, mime_type=mime, blob=base64.b64encode(data).decode())
