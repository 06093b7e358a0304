"""Artifacts of a daemon: outputs that were kept, by name and version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.client.connection import Connection, Request, path_of
from sandbox_skills.client.downloads import download
from sandbox_skills.client.json_values import read
from sandbox_skills.client.paging import pages
from sandbox_skills.client.values import ArtifactInfo

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


class Artifacts:
    """The artifacts of the key's tenant."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self, prefix: str = "") -> AsyncGenerator[ArtifactInfo]:
        """Yields the latest version of each artifact whose name starts with `prefix`, by name."""
        return pages(self._connection, path_of("artifacts"), ArtifactInfo, {"prefix": prefix or None})

    def versions(self, name: str) -> AsyncGenerator[ArtifactInfo]:
        """Yields every version of one artifact, the oldest first."""
        return pages(self._connection, path_of("artifacts", name, "versions"), ArtifactInfo)

    async def get(self, name: str, version: int | None = None) -> ArtifactInfo:
        """Returns one artifact, the latest version of it by default."""
        path = _path(name, version)
        return read(ArtifactInfo, await self._connection.json(Request("GET", path)))

    def content(self, name: str, version: int) -> AsyncGenerator[bytes]:
        """Yields the bytes of one version."""
        return download(self._connection, Request("GET", f"{_path(name, version)}/content"))

    async def delete(self, name: str, version: int | None = None) -> None:
        """Removes a version of an artifact, None for all of them."""
        await self._connection.json(Request("DELETE", _path(name, version)))


def _path(name: str, version: int | None) -> str:
    versions = () if version is None else ("versions", str(version))
    return path_of("artifacts", name, *versions)
