"""What a snapshot has beside files: folders that no file tells of, and links. Pure; every name is a stranger's."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import takewhile
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from sandbox_skills.errors import PathEscapeError
from sandbox_skills.spec import WORKSPACE
from sandbox_skills.workspace.layout import DIRECTORIES, OUTPUT_DIR, WORK_DIR
from sandbox_skills.workspace.paths import MAX_PATH_BYTES, name_fault, relative_inside

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOTS = (WORK_DIR.name, OUTPUT_DIR.name)
"""Folders of the workspace that a snapshot has."""

USUAL_MODE = 0o755
"""Mode of a folder that is made on the way to a file."""

MAX_DEPTH = 80
"""Names in one path: more than the runner goes down."""

SYSTEM = PurePosixPath("/usr")
"""Where the image has its programs: a virtual environment links to them, and nobody can write there."""

LINK = "link"
"""Why a link is left out: a collection has none, and a snapshot only those that lead to a place that it has."""

_UNTOLD = frozenset(path.relative_to(WORKSPACE) for path in DIRECTORIES)
_FIELDS = 4
_MODE = re.compile(r"[0-7]{1,4}")


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder by its path in the workspace."""

    path: PurePosixPath
    mode: int


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link by its path in the workspace."""

    path: PurePosixPath
    target: str


@dataclass(frozen=True, slots=True)
class Left:
    """What is no entry of a snapshot, and why, in the words of a collection."""

    name: str
    reason: str


Entry = Folder | Link


def entry_path(text: str) -> PurePosixPath:
    """Returns the path of an entry below one of the roots; raises PathEscapeError for any other."""
    path = relative_inside(text)
    if not 2 <= len(path.parts) <= MAX_DEPTH or path.parts[0] not in ROOTS:  # noqa: PLR2004  # a root, and what is in it
        raise PathEscapeError(f"it lies in neither of {', '.join(ROOTS)}, or too deep")
    return path


def stays(link: Link) -> bool:
    """Tells whether a link leads to a place in the workspace, or to a program of the image.

    It may go up only at its beginning, where real folders are above it: so whatever other links of this kind are on
    its way, it never leaves.
    """
    if not 0 < len(link.target.encode(errors="surrogatepass")) <= MAX_PATH_BYTES:
        return False
    absolute = link.target.startswith("/")
    names = PurePosixPath(link.target.lstrip("/")).parts
    ups = sum(1 for _ in takewhile(lambda name: name == "..", names))
    if any(name_fault(name) for name in names[ups:]):
        return False
    if absolute:
        target = PurePosixPath("/", *names)
        return not ups and (target.is_relative_to(WORKSPACE) or target.is_relative_to(SYSTEM))
    return ups < len(link.path.parts)


def read_listing(listing: bytes) -> Iterator[Entry | Left]:
    """Yields the entries of a listing: kind, mode, path and target of each, with a NUL behind each of them.

    What every workspace has does not come.
    """
    # What is no UTF-8 gets a backslash, which no name has by our rule.
    fields = [field.decode(errors="backslashreplace") for field in listing.split(b"\0")[:-1]]
    for kind, mode, name, target in zip(*(fields[start::_FIELDS] for start in range(_FIELDS)), strict=False):
        entry = _entry(kind, mode, name, target)
        if not isinstance(entry, Folder) or entry.path not in _UNTOLD or entry.mode != USUAL_MODE:
            yield entry


def _entry(kind: str, mode: str, name: str, target: str) -> Entry | Left:
    try:
        path = entry_path(name)
    except PathEscapeError:
        return Left(name, "name")
    if kind == "l":
        link = Link(path, target)
        return link if stays(link) else Left(name, LINK)
    return Folder(path, int(mode, 8) & 0o777) if _MODE.fullmatch(mode) else Left(name, "unreadable")


class Places:
    """The paths that entries have taken, so that none comes twice or lies below what is no folder.

    Whatever is above a folder that is known is known to be a folder, too.
    """

    def __init__(self) -> None:
        self._leaves: set[str] = set()
        self._folders: set[str] = set()
        self._told: set[str] = set()

    def __len__(self) -> int:
        return len(self._leaves) + len(self._told)

    def take(self, path: PurePosixPath, *, folder: bool = False) -> bool:
        """Takes a path; returns False where it cannot be had."""
        name = str(path)
        above = self._unknown_above(name)
        if name in self._leaves or not self._leaves.isdisjoint(above):
            return False
        if name in (self._told if folder else self._folders):
            return False
        if folder:
            self._told.add(name)
            self._folders.add(name)
        else:
            self._leaves.add(name)
        self._folders.update(above)
        return True

    def _unknown_above(self, name: str) -> list[str]:
        above: list[str] = []
        while (name := name.rpartition("/")[0]) and name not in self._folders:
            above.append(name)
        return above
