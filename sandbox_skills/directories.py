"""Directories of ours on the host: nobody else is to look into them, wherever the first of them is made."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PRIVATE = 0o700
"""The mode that the XDG directories are made with, too."""

_DISK_FAULTS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS})


def make_private(path: Path) -> None:
    """Makes a directory and those missing above it for this user alone; one that is there keeps its mode.

    Raises OSError.
    """
    for directory in (*reversed(path.parents), path):
        directory.mkdir(mode=PRIVATE, exist_ok=True)


def disk_failed(error: OSError) -> bool:
    """Whether a disk is full, over its quota, broken or read-only: nothing that the caller asked for is at fault."""
    return error.errno in _DISK_FAULTS
