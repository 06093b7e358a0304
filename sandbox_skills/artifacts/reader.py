"""Reads one artifact in chunks, and compares what is read whole with its digest."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from anyio import to_thread

from sandbox_skills.artifacts.open_file import CHUNK
from sandbox_skills.errors import ArtifactStoreError, RequestError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from sandbox_skills.artifacts.open_file import OpenFile
    from sandbox_skills.artifacts.store import Artifact


class BlobReader:
    """An ArtifactReader over a file that its maker opened and closes."""

    def __init__(self, artifact: Artifact, file: OpenFile) -> None:
        self._artifact = artifact
        self._file = file

    @property
    def artifact(self) -> Artifact:
        return self._artifact

    async def chunks(self, offset: int = 0, length: int | None = None) -> AsyncGenerator[bytes]:
        if offset < 0 or (length is not None and length < 0):
            raise RequestError(f"there are no {length} bytes from {offset}")
        size = self._artifact.size
        end = size if length is None else min(size, offset + length)
        whole = hashlib.sha256() if (offset, end) == (0, size) else None
        while offset < end:
            data = await to_thread.run_sync(
                self._read, offset, min(CHUNK, end - offset), whole.update if whole else None
            )
            offset += len(data)
            yield data
        if whole and whole.hexdigest() != self._artifact.sha256:
            raise ArtifactStoreError(f"the content of {self._artifact.ref} is damaged: it has another digest")

    def _read(self, offset: int, size: int, digest: Callable[[bytes], None] | None) -> bytes:
        try:
            data = self._file.read(offset, size)
        except OSError as error:
            raise ArtifactStoreError(
                f"the content of {self._artifact.ref} cannot be read: {error.strerror}"
            ) from error
        if not data:
            raise ArtifactStoreError(f"the content of {self._artifact.ref} ends at {offset}")
        if digest:
            digest(data)
        return data
