"""Directories of ours on the host: nobody else is to look into them, wherever the first of them is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PRIVATE = 0o700
"""The mode that the XDG directories are made with, too."""


def make_private(path: Path) -> None:
    """Makes a directory and those missing above it for this user alone; one that is there keeps its mode.

    Raises OSError.
    """
    for directory in (*reversed(path.parents), path):
        directory.mkdir(mode=PRIVATE, exist_ok=True)
