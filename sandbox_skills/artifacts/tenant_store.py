"""What one tenant keeps: records in a database, contents in files named by their SHA-256. Blocking.

    directory/      0700; nothing in it is another tenant's
      records.db    names, versions, metadata: an artifact is there from the moment its record is
      blobs/        one file for each content, however many versions have it
      temporary/    contents being written, each locked by its writer

A content is in place before its record and goes after it, each within a transaction of the database, which only
one writer has at a time. So a writer that dies leaves at most a file that no record names, and `retain` removes it.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from sandbox_skills.artifacts import records
from sandbox_skills.artifacts.database import reading, writing
from sandbox_skills.artifacts.names import MAX_VERSION, shown
from sandbox_skills.artifacts.retention import check_quota, victims
from sandbox_skills.artifacts.store import Artifact, Page, Removed, Usage
from sandbox_skills.artifacts.upload import Upload, remove_abandoned, sync_directory
from sandbox_skills.errors import ArtifactNotFoundError, ArtifactStoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable
    from pathlib import Path

    from sandbox_skills.artifacts.choices import ArtifactQuota, RetentionPolicy
    from sandbox_skills.artifacts.open_file import OpenFile
    from sandbox_skills.artifacts.store import ArtifactMetadata


class TenantStore:
    """The artifacts below `directory`, which is made by the first upload. Raises ArtifactStoreError everywhere."""

    def __init__(self, directory: Path, quota: ArtifactQuota, clock: Callable[[], float]) -> None:
        self._directory = directory
        self._database = directory / "records.db"
        self._blobs = directory / "blobs"
        self._temporary = directory / "temporary"
        self._quota = quota
        self._clock = clock

    def upload(self, size: int) -> Upload:
        """Returns an upload, not yet begun, of at least `size` bytes and all the room there is; raises QuotaError."""
        with self._told():
            usage = self.usage()
            check_quota(usage, self._quota, size=size)
            self._prepare()
        return Upload(self._temporary, max_bytes=self._quota.bytes - usage.bytes)

    def write(self, upload: Upload, data: bytes) -> None:
        """Adds bytes to an upload; raises QuotaError where they are too many."""
        with self._told():
            upload.write(data)

    def commit(self, upload: Upload, name: str, metadata: ArtifactMetadata) -> Artifact:
        """Makes what was uploaded the next version of `name`; raises QuotaError."""
        with self._told():
            upload.sync()
            with writing(self._database) as connection:
                check_quota(records.usage(connection), self._quota, size=upload.size)
                artifact = Artifact(
                    name=name,
                    version=records.take_version(connection, name),
                    mime_type=metadata.mime_type,
                    size=upload.size,
                    sha256=upload.sha256,
                    skill=metadata.skill,
                    skill_digest=metadata.skill_digest,
                    run_id=metadata.run_id,
                    created=self._clock(),
                )
                upload.publish(self._blobs / artifact.sha256)
                records.insert(connection, artifact)
        return artifact

    def stat(self, name: str, version: int | None) -> Artifact:
        """Returns one version, the latest for None; raises ArtifactNotFoundError."""
        known = version is None or 0 <= version <= MAX_VERSION
        with self._told(), reading(self._database) as connection:
            found = records.find(connection, name, version) if connection and known else None
        if found is None:
            which = "" if version is None else f" version {version} of"
            raise ArtifactNotFoundError(f"there is no{which} artifact {shown(name)}")
        return found

    def open(self, file: OpenFile, name: str, version: int | None) -> Artifact:
        """Opens one version in `file`; raises ArtifactNotFoundError."""
        while True:
            artifact = self.stat(name, version)
            try:
                with self._told(FileNotFoundError):
                    size = file.open(self._blobs / artifact.sha256)
            except FileNotFoundError as error:
                # It may have been deleted in between; then there is another answer now.
                if self.stat(name, version) == artifact:
                    raise ArtifactStoreError(f"the content of {artifact.ref} is missing") from error
                continue
            if size != artifact.size:
                raise ArtifactStoreError(f"the content of {artifact.ref} is damaged: it has {size} bytes")
            return artifact

    def page(self, prefix: str, after: tuple[str, int], *, all_versions: bool, limit: int) -> Page:
        """Returns the artifacts behind `after`."""
        with self._told(), reading(self._database) as connection:
            if connection is None:
                return Page(())
            found = records.page(connection, prefix, after, all_versions=all_versions, limit=limit + 1)
        return Page(tuple(found[:limit]), found[limit - 1].ref if len(found) > limit else None)

    def usage(self) -> Usage:
        """Returns how much is kept."""
        with self._told(), reading(self._database) as connection:
            return records.usage(connection) if connection else Usage()

    def delete(self, name: str, version: int | None) -> Removed:
        """Removes one version, or all for None; raises ArtifactNotFoundError."""
        self.stat(name, version)
        with self._told():
            with writing(self._database) as connection:
                found = [one for one in records.versions(connection, name) if version in {None, one.version}]
                records.remove(connection, found, now=self._clock())
            self._drop(one.sha256 for one in found)
        return Removed(tuple(found))

    def retain(self, policy: RetentionPolicy) -> Removed:
        """Removes what the policy does not leave, and every file that belongs to no artifact."""
        if not self._directory.exists():
            return Removed()
        with self._told():
            self._prepare()
            now = self._clock()
            with writing(self._database) as connection:
                taken = victims(records.everything(connection), policy, now=now)
                records.remove(connection, taken, now=now)
            self._drop(one.sha256 for one in taken)
            leftovers = self._drop(path.name for path in self._blobs.iterdir())
            leftovers += remove_abandoned(self._temporary)
        return Removed(tuple(taken), leftovers)

    def _drop(self, digests: Iterable[str]) -> int:
        """Removes those contents that no artifact has; returns how many."""
        with writing(self._database) as connection:
            unused = records.unused(connection, set(digests))
            for digest in unused:
                (self._blobs / digest).unlink(missing_ok=True)
        return len(unused)

    def _prepare(self) -> None:
        for directory in (self._directory, self._blobs, self._temporary):
            if not directory.exists():
                directory.mkdir(mode=0o700, exist_ok=True)
                sync_directory(directory.parent)

    @contextmanager
    def _told(self, *passed: type[OSError]) -> Generator[None]:
        try:
            yield
        except passed:
            raise
        except OSError as error:
            raise ArtifactStoreError(
                f"the artifact store {self._directory} cannot be used: {error.strerror or error}",
                hint="look at the rights and the free space of that directory",
            ) from error
