"""Skills of a daemon: sent there as they lie in a folder, listed, fetched, removed."""

from __future__ import annotations

import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from anyio import to_thread

from sandbox_skills.client.connection import Connection, Request, path_of
from sandbox_skills.client.downloads import download
from sandbox_skills.client.folder_zip import write_zip
from sandbox_skills.client.json_values import read
from sandbox_skills.client.paging import pages
from sandbox_skills.client.values import SkillInfo, SkillVersion
from sandbox_skills.spec import MIB

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from sandbox_skills.client.json_values import JsonObject

SPOOLED = 16 * MIB
"""Bytes of an archive that are held in memory; a larger one lies on the disk while it is sent."""


class Skills:
    """The skills of the key's tenant, and those that the server has for everybody."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def upload(self, folder: str | Path) -> SkillVersion:
        """Sends a skill's folder as a new version of it. Not made again by itself: that would be one more version.

        Raises SkillUnsafeError for a folder with a link in it, and the server's error for a skill that it refuses.
        """
        async with _packed(Path(folder)) as (name, file):
            sent = Request(
                "POST", path_of("skills"), files={"file": (f"{name}.zip", file, "application/zip")}
            )
            return read(SkillVersion, await self._connection.json(sent))

    async def validate(self, folder: str | Path) -> JsonObject:
        """Returns what the server finds in a skill's folder; it keeps nothing."""
        async with _packed(Path(folder)) as (name, file):
            files = {"file": (f"{name}.zip", file, "application/zip")}
            return await self._connection.json(Request("POST", path_of("skills", "validate"), files=files))

    def list(self) -> AsyncGenerator[SkillInfo]:
        """Yields the skills there are."""
        return pages(self._connection, path_of("skills"), SkillInfo)

    async def get(self, name: str) -> SkillInfo:
        """Returns one skill."""
        return read(SkillInfo, await self._connection.json(Request("GET", path_of("skills", name))))

    def versions(self, name: str) -> AsyncGenerator[SkillVersion]:
        """Yields the versions of a skill."""
        return pages(self._connection, path_of("skills", name, "versions"), SkillVersion)

    async def version(self, name: str, version: int | str = "latest") -> SkillVersion:
        """Returns one version of a skill."""
        path = path_of("skills", name, "versions", str(version))
        return read(SkillVersion, await self._connection.json(Request("GET", path)))

    def content(self, name: str, version: int | str = "latest") -> AsyncGenerator[bytes]:
        """Yields the bytes of a zip with what a version holds."""
        path = path_of("skills", name, "versions", str(version), "content")
        return download(self._connection, Request("GET", path))

    async def delete(self, name: str, version: int | str | None = None) -> None:
        """Removes a version of a skill, None for all of it."""
        versions = () if version is None else ("versions", str(version))
        await self._connection.json(Request("DELETE", path_of("skills", name, *versions)))


@asynccontextmanager
async def _packed(folder: Path) -> AsyncGenerator[tuple[str, IO[bytes]]]:
    with tempfile.SpooledTemporaryFile(max_size=SPOOLED) as file:
        name = await to_thread.run_sync(write_zip, folder, file)
        file.seek(0)
        yield name, file
