"""The artifact store on this host's disk, shared by any number of threads and processes."""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from anyio import to_thread

from sandbox_skills.artifacts.choices import ArtifactQuota
from sandbox_skills.artifacts.content import opened
from sandbox_skills.artifacts.names import MAX_VERSION, check_name, parse_ref, shown, text_fault
from sandbox_skills.artifacts.open_file import OpenFile
from sandbox_skills.artifacts.reader import BlobReader
from sandbox_skills.artifacts.store import DEFAULT_PAGE, MAX_PAGE, ArtifactMetadata, QuotaOf
from sandbox_skills.artifacts.tenant_store import TenantStore
from sandbox_skills.directories import make_private
from sandbox_skills.errors import ArtifactNameError, ArtifactStoreError, RequestError, SettingsError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from pathlib import Path

    from sandbox_skills.artifacts.choices import RetentionPolicy
    from sandbox_skills.artifacts.store import Artifact, Content, Page, Removed, Usage

_FIRST = ("", -1)
"""Before every name and version."""


class LocalArtifactStore:
    """An ArtifactStore below `root`, which the first save makes. Raises SettingsError for a root that is another's.

    A number is given twice only for a name of which nothing is left and which was forgotten, after
    `records.REMEMBERED_NAMES` others were emptied. `quota` is each tenant's, or tells it by tenant. `clock` is seconds
    since the epoch.
    """

    def __init__(
        self,
        root: Path,
        *,
        quota: ArtifactQuota | QuotaOf | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._root = root.resolve()
        self._quota = quota or ArtifactQuota()
        self._clock = clock
        try:
            owner = self._root.stat().st_uid
        except FileNotFoundError:
            return
        except OSError as error:
            raise SettingsError(f"the artifact store {root} cannot be used: {error.strerror}") from error
        if owner != os.geteuid():
            # Whoever owns the directory could swap what later runs are given.
            raise SettingsError(
                f"the artifact store {root} belongs to another user", hint="choose another place"
            )

    async def save(
        self, name: str, content: Content, metadata: ArtifactMetadata | None = None, *, tenant: str
    ) -> Artifact:
        check_name(name)
        said = metadata or ArtifactMetadata()
        _check_metadata(said)
        kept = self._of(tenant)
        async with opened(content) as source, aclosing(source.chunks) as chunks:
            await to_thread.run_sync(self._prepare)
            upload = await to_thread.run_sync(kept.upload, source.size)
            try:
                async for chunk in chunks:
                    await to_thread.run_sync(kept.write, upload, chunk)
                return await to_thread.run_sync(kept.commit, upload, name, said)
            finally:
                upload.close()

    @asynccontextmanager
    async def open(self, name: str, version: int | None = None, *, tenant: str) -> AsyncGenerator[BlobReader]:
        check_name(name)
        file = OpenFile()
        try:
            yield BlobReader(await to_thread.run_sync(self._of(tenant).open, file, name, version), file)
        finally:
            file.close()

    async def get(
        self, name: str, version: int | None = None, *, max_bytes: int, tenant: str
    ) -> tuple[Artifact, bytes]:
        async with self.open(name, version, tenant=tenant) as reader:
            return reader.artifact, b"".join([chunk async for chunk in reader.chunks(length=max_bytes)])

    async def stat(self, name: str, version: int | None = None, *, tenant: str) -> Artifact:
        check_name(name)
        return await to_thread.run_sync(self._of(tenant).stat, name, version)

    async def list(
        self,
        prefix: str = "",
        *,
        all_versions: bool = False,
        after: str | None = None,
        limit: int = DEFAULT_PAGE,
        tenant: str,
    ) -> Page:
        if fault := text_fault(prefix):
            raise ArtifactNameError(f"the prefix {shown(prefix)} {fault}")
        start = _FIRST if after is None else parse_ref(after)
        # Of a name that was listed no later version comes, unless each does.
        last = start[1] if all_versions or after is None else None
        place = start[0], MAX_VERSION if last is None else last
        return await to_thread.run_sync(
            partial(
                self._of(tenant).page,
                prefix,
                place,
                all_versions=all_versions,
                limit=max(1, min(limit, MAX_PAGE)),
            )
        )

    async def delete(self, name: str, version: int | None = None, *, tenant: str) -> Removed:
        check_name(name)
        return await to_thread.run_sync(self._of(tenant).delete, name, version)

    async def retain(self, policy: RetentionPolicy, *, tenant: str) -> Removed:
        return await to_thread.run_sync(self._of(tenant).retain, policy)

    async def usage(self, *, tenant: str) -> Usage:
        return await to_thread.run_sync(self._of(tenant).usage)

    def _of(self, tenant: str) -> TenantStore:
        if not tenant:
            raise RequestError("artifacts belong to a tenant, and none was named")
        # The directory cannot be listed by others, so the hash is for odd names, not for secrecy.
        name = hashlib.sha256(tenant.encode(errors="surrogatepass")).hexdigest()
        quota = self._quota if isinstance(self._quota, ArtifactQuota) else self._quota(tenant)
        return TenantStore(self._root / name, quota, self._clock)

    def _prepare(self) -> None:
        try:
            make_private(self._root)
            self._root.chmod(0o700)
        except OSError as error:
            raise ArtifactStoreError(
                f"the artifact store {self._root} cannot be made: {error.strerror}",
                hint="look at the rights of that directory, or choose another data_dir",
            ) from error


def _check_metadata(metadata: ArtifactMetadata) -> None:
    for field in ("mime_type", "skill", "skill_digest", "run_id"):
        if fault := text_fault(getattr(metadata, field)):
            raise RequestError(f"the {field} of an artifact {fault}")
