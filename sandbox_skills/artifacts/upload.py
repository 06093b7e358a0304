"""New bytes on their way into a store: a temporary file that its writer holds locked. Blocking.

The lock ends with the writer, however that ends, so what is not locked was left by one that died.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_skills.artifacts.held import Held
from sandbox_skills.artifacts.retention import QUOTA_HINT
from sandbox_skills.errors import QuotaError

if TYPE_CHECKING:
    from collections.abc import Generator

_READ_ONLY = 0o400


class Upload(Held):
    """One file being written below `directory`, of at most `max_bytes`; made when the first byte comes.

    Every method raises OSError. Must be closed, which removes the file unless it was published.
    """

    def __init__(self, directory: Path, *, max_bytes: int) -> None:
        super().__init__()
        self.size = 0
        self._directory = directory
        self._max_bytes = max_bytes
        self._hash = hashlib.sha256()
        self._file: int | None = None
        self._path: Path | None = None

    @property
    def sha256(self) -> str:
        """The hex digest of what was written."""
        return self._hash.hexdigest()

    def write(self, data: bytes) -> None:
        """Adds bytes; raises QuotaError, writing none of them, where they are too many."""
        if self.size + len(data) > self._max_bytes:
            raise QuotaError(
                f"the artifact is longer than the {self._max_bytes} bytes that are left for it",
                hint=QUOTA_HINT,
            )
        with self._opened() as descriptor:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            self._hash.update(data)
            self.size += len(data)

    def sync(self) -> None:
        """Waits until the bytes would outlast a loss of power."""
        with self._opened() as descriptor:
            os.fchmod(descriptor, _READ_ONLY)
            os.fsync(descriptor)

    def publish(self, target: Path) -> None:
        """Moves the file to `target`, in place of one that is there."""
        with self._opened():
            assert self._path is not None
            # One that is there has the same bytes, unless it was damaged: then this repairs it.
            self._path.replace(target)
            self._path = None
        sync_directory(target.parent)

    @contextmanager
    def _opened(self) -> Generator[int]:
        with self._in_use():
            while self._file is None:
                self._create()
            yield self._file

    def _create(self) -> None:
        self._file, path = tempfile.mkstemp(dir=self._directory)
        self._path = Path(path)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        # Before it was locked it looked like one that was left, and may have been removed.
        if os.fstat(self._file).st_nlink == 0:
            self._end()

    def _end(self) -> None:
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            self._path = None
        if self._file is not None:
            os.close(self._file)
            self._file = None


def remove_abandoned(directory: Path) -> int:
    """Removes the files of writers that are dead; returns how many. Raises OSError."""
    removed = 0
    for path in directory.iterdir():
        with suppress(FileNotFoundError, BlockingIOError):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
                removed += 1
            finally:
                os.close(descriptor)
    return removed


def sync_directory(directory: Path) -> None:
    """Waits until the entries of a directory would outlast a loss of power; raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
