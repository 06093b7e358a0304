"""Where expired sessions leave their files: a folder of this process's own, which is gone with it, or after it."""

from __future__ import annotations

import secrets
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from sandbox_skills.directories import make_private, owned_directory, sweep_owned
from sandbox_skills.errors import OutputError

if TYPE_CHECKING:
    from pathlib import Path

PREFIX = "snapshots-"
"""Begins the name of each process's folder; nothing else is ever removed."""


class SnapshotFolder:
    """A folder below `root` that is made when it is first needed and locked by its owner while that lives."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._path: Path | None = None
        self._owned = ExitStack()

    def new_path(self) -> Path:
        """Returns the path of a snapshot that is not there yet; raises OutputError where there is no place for it."""
        try:
            if self._path is None:
                make_private(self._root)
                self._path = self._owned.enter_context(owned_directory(self._root, PREFIX))
        except OSError as error:
            raise OutputError(f"snapshots cannot be kept below {self._root}: {error.strerror}") from error
        return self._path / f"{secrets.token_hex(16)}.tar"

    def sweep(self) -> None:
        """Removes what processes that died have left."""
        with suppress(OSError):  # the next process tries again
            sweep_owned(self._root, PREFIX)

    def close(self) -> None:
        """Removes the folder and all in it."""
        self._owned.close()
        self._path = None
