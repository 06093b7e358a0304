"""A regular file held open for reads in worker threads. Blocking."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from sandbox_skills.artifacts.held import Held

if TYPE_CHECKING:
    from pathlib import Path

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY

CHUNK = 1024 * 1024
"""Bytes read or written at once: a visit to a thread costs nothing against that, and memory stays flat."""


class OpenFile(Held):
    """Made closed; must be closed again."""

    def __init__(self) -> None:
        super().__init__()
        self._descriptor: int | None = None

    def open(self, path: Path) -> int:
        """Opens a file and returns its size; raises OSError, also where it is a link or no regular file."""
        with self._in_use():
            descriptor = os.open(path, _FLAGS)
            info = os.fstat(descriptor)
            if not stat.S_ISREG(info.st_mode):
                os.close(descriptor)
                raise OSError(errno.EINVAL, "it is not a regular file")
            self._descriptor = descriptor
            return info.st_size

    def read(self, offset: int, size: int) -> bytes:
        """Returns bytes from `offset`, none at the end; raises OSError."""
        with self._in_use():
            assert self._descriptor is not None
            return os.pread(self._descriptor, size, offset)

    def _end(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
