"""Where expired sessions leave their files: a folder of this process's own, which is gone with it, or after it."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

from sandbox_skills.errors import OutputError

if TYPE_CHECKING:
    from pathlib import Path

_LOCK = "owner"


class SnapshotFolder:
    """A folder below `root` that is made when it is first needed and locked by its owner while that lives."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._path = root / secrets.token_hex(16)
        self._lock: int | None = None

    def new_path(self) -> Path:
        """Returns the path of a snapshot that is not there yet; raises OutputError where there is no place for it."""
        try:
            if self._lock is None:
                self._path.mkdir(mode=0o700, parents=True)
                self._lock = os.open(self._path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                fcntl.flock(self._lock, fcntl.LOCK_EX)
        except OSError as error:
            raise OutputError(f"snapshots cannot be kept below {self._root}: {error.strerror}") from error
        return self._path / f"{secrets.token_hex(16)}.tar"

    def sweep(self) -> None:
        """Removes what processes that died have left."""
        with suppress(OSError):  # the next process tries again
            for folder in self._root.iterdir() if self._root.is_dir() else ():
                if folder != self._path and not _is_owned(folder):
                    shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """Removes the folder and all in it."""
        if self._lock is not None:
            shutil.rmtree(self._path, ignore_errors=True)
            os.close(self._lock)
            self._lock = None


def _is_owned(folder: Path) -> bool:
    """Tells whether somebody holds the lock; where there is none the folder is just being made, or not ours."""
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False
