"""The artifacts of a daemon, as the commands know those of this machine."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from sandbox_skills.artifacts import MAX_PAGE, Artifact, Page, Removed
from sandbox_skills.errors import ArtifactNotFoundError
from sandbox_skills.wiring import server_client

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from sandbox_skills.client import ArtifactInfo, ServerOptions, SkillsClient


class ServerArtifacts:
    """Looks at and removes what a daemon keeps for the tenant of the key; `tenant` is the key's, whatever is said."""

    def __init__(self, client: SkillsClient) -> None:
        self._client = client

    @asynccontextmanager
    async def open(
        self, name: str, version: int | None = None, *, tenant: str
    ) -> AsyncGenerator[ServerArtifact]:
        """Gives one version, the latest without a number; raises ArtifactNotFoundError."""
        yield ServerArtifact(self._client, artifact_of(await self._client.artifacts.get(name, version)))

    async def list(
        self,
        prefix: str = "",
        *,
        all_versions: bool = False,
        after: str | None = None,
        limit: int = MAX_PAGE,
        tenant: str,
    ) -> Page:
        """Returns all of them at once: the client reads page by page."""
        found = [one async for one in self._client.artifacts.list(prefix)]
        if all_versions:
            found = [one for name in found async for one in self._client.artifacts.versions(name.name)]
        return Page(tuple(map(artifact_of, found)))

    async def delete(self, name: str, version: int | None = None, *, tenant: str) -> Removed:
        """Removes one version, or every one without a number; raises ArtifactNotFoundError where there is none."""
        versions = [one async for one in self._client.artifacts.versions(name)]
        there = [artifact_of(one) for one in versions if version in {None, one.version}]
        if not there:
            raise ArtifactNotFoundError(
                f"no artifact {name!r}" + ("" if version is None else f" of version {version}")
            )
        await self._client.artifacts.delete(name, version)
        return Removed(tuple(there))


class ServerArtifact:
    """One version on a daemon, whose bytes are fetched as they are read."""

    def __init__(self, client: SkillsClient, artifact: Artifact) -> None:
        self._client = client
        self.artifact = artifact

    async def chunks(self, offset: int = 0, length: int | None = None) -> AsyncGenerator[bytes]:
        """Yields the bytes; a lost connection goes on where it broke. Whole alone is asked for here."""
        assert (offset, length) == (0, None)
        async for piece in self._client.artifacts.content(self.artifact.name, self.artifact.version):
            yield piece


@asynccontextmanager
async def server_artifacts(there: ServerOptions) -> AsyncGenerator[ServerArtifacts]:
    """Gives the artifacts of a daemon."""
    async with server_client(there) as client:
        yield ServerArtifacts(client)


def artifact_of(told: ArtifactInfo) -> Artifact:
    """Returns an artifact as this machine tells of its own."""
    return Artifact(
        name=told.name,
        version=told.version,
        mime_type=told.mime_type,
        size=told.size,
        sha256=told.sha256,
        skill=told.skill,
        skill_digest=told.skill_digest,
        run_id=told.run_id,
        created=told.created_at.timestamp() if told.created_at is not None else 0.0,
    )
