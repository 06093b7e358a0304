"""Opens files that the user or a stranger named, without waiting for whoever holds the other end. Blocking."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


def open_regular(path: str | Path, *, follow: bool = True) -> tuple[int, os.stat_result]:
    """Returns a descriptor of a regular file, which the caller closes, and its status.

    Raises OSError, for a FIFO or a device as well; without `follow` also for a link.
    """
    descriptor = os.open(path, _FLAGS | (0 if follow else os.O_NOFOLLOW))
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode):
        return descriptor, status
    os.close(descriptor)
    raise OSError("is not a regular file")


def read_regular(path: Path, max_bytes: int) -> bytes:
    """Returns a regular file's bytes; raises OSError, and ValueError for one with more than `max_bytes`."""
    descriptor, _ = open_regular(path)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise ValueError(f"longer than {max_bytes} bytes")
    return data
