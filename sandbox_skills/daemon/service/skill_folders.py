"""Where tenants' skills lie: a folder for each content, made whole and never written again. Blocking.

ROOT/TENANT/DIGEST/ID/       one content of one skill
ROOT/TENANT/.incoming-XXXX/  what is being received, packed out or removed; gone with its process
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING
from urllib.parse import quote

from sandbox_skills.directories import PRIVATE
from sandbox_skills.install.incoming import PREFIX, incoming_directory, sweep
from sandbox_skills.workspace.skill_copy import EXECUTABLE

if TYPE_CHECKING:
    from collections.abc import Collection
    from contextlib import AbstractContextManager
    from pathlib import Path

    from sandbox_skills.install.taking import Taken

_THERE_ALREADY = frozenset({errno.EEXIST, errno.ENOTEMPTY})


class SkillFolders:
    """The folders of every tenant below `root`, which is made when it is first needed.

    Folders are added and removed in one step each, so that whoever opens one has all of it or nothing.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def incoming(self, *, tenant: str) -> AbstractContextManager[Path]:
        """Gives an empty directory on the disk of the tenant's skills; all in it is removed afterwards.

        Raises as `install.incoming` does.
        """
        return incoming_directory(self._of(tenant))

    def add(self, taken: Taken, *, tenant: str) -> Path:
        """Moves a skill that was taken below an incoming directory to its place; returns that.

        One of the same content may be there already: then that one stays. Raises OSError.
        """
        carrier = taken.folder.parent / "carrier"
        carrier.mkdir(mode=PRIVATE)
        moved = taken.folder.rename(carrier / taken.folder.name)
        _close(moved)
        place = self._of(tenant) / taken.content.digest
        try:
            carrier.rename(place)
        except OSError as error:
            if error.errno not in _THERE_ALREADY:
                raise
        return place / moved.name

    def find(self, digest: str, *, tenant: str) -> Path | None:
        """Returns the folder of a content, None where it is not there. Raises OSError."""
        try:
            return next((self._of(tenant) / digest).iterdir(), None)
        except FileNotFoundError:
            return None

    def sweep(self, kept: Collection[str], *, tenant: str) -> list[str]:
        """Removes the contents that are not `kept`, and what dead processes have left; returns what went.

        Raises OSError.
        """
        root = self._of(tenant)
        if not root.is_dir():
            return []
        found = sorted(path for path in root.iterdir() if not path.name.startswith(PREFIX))
        gone = [path for path in found if path.name not in kept]
        if gone:
            with self.incoming(tenant=tenant) as incoming:
                for path in gone:
                    path.rename(incoming / path.name)
        return [path.name for path in gone] + sweep(root)

    def tenants(self) -> list[str]:
        """Returns the tenants that have folders here, by the names of these."""
        return sorted(path.name for path in self._root.iterdir()) if self._root.is_dir() else []

    def _of(self, tenant: str) -> Path:
        # Ids are ours; a folder's name may be no worse for that.
        return self._root / quote(tenant, safe="")


def _close(folder: Path) -> None:
    """Takes the right to write in every directory of a skill: what is published does not change."""
    for directory, _, _ in os.walk(folder, topdown=False):
        os.chmod(directory, EXECUTABLE)  # noqa: PTH101 - os.walk gives strings
