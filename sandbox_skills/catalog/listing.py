"""What one directory means to a scan, and the index that saves asking again while nothing has changed."""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from sandbox_skills.catalog.parse import check_skill
from sandbox_skills.catalog.skill_file import Stamp, pick, read_skill_file, settled, stamp_of

if TYPE_CHECKING:
    from sandbox_skills.catalog.parse import Checked, ParseOptions
    from sandbox_skills.catalog.skill import SkillRoot

_Record = TypeVar("_Record")

DIGEST_BYTES = 16
"""Enough that no two contents of one file are taken for the same: 128 bits."""


@dataclass(frozen=True, slots=True)
class Listing:
    """One directory: its skill file if it has one, the directories to go into, and links to look at."""

    identity: tuple[int, int]
    stamp: Stamp | None
    skill: str | None
    skill_is_link: bool
    directories: tuple[str, ...]
    links: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FileRecord:
    """What came of one skill file; `stamp` is None where it must be read again next time.

    `digest` tells a file that was only touched from one that has changed.
    """

    stamp: Stamp | None
    digest: bytes
    source: str
    root: SkillRoot
    checked: Checked


class Generation(Generic[_Record]):
    """Records of the scan before and of this one, so that what is gone is forgotten."""

    def __init__(self) -> None:
        self.before: dict[str, _Record] = {}
        self.now: dict[str, _Record] = {}

    def turn(self) -> None:
        """Ends a scan."""
        self.before, self.now = self.now, {}


class ScanIndex:
    """Directories and skill files of the last scan, by path and stamp."""

    def __init__(self, options: ParseOptions, skip_prefixes: tuple[str, ...]) -> None:
        self._options = options
        self._skip = skip_prefixes
        self._listings: Generation[Listing] = Generation()
        self._files: Generation[FileRecord] = Generation()

    def turn(self) -> None:
        """Ends a scan: what it did not touch is forgotten."""
        self._listings.turn()
        self._files.turn()

    def unchanged(self) -> bool:
        """Whether every directory and file of the last scan still has its stamp."""
        try:
            return self._same_listings() and self._same_files()
        except OSError:
            return False

    def _same_listings(self) -> bool:
        known = self._listings.before.items()
        return all(listing.stamp == _stamp(path) for path, listing in known)

    def _same_files(self) -> bool:
        known = self._files.before.values()
        return all(record.stamp == stamp_of(os.lstat(record.source)) for record in known)

    def listing(self, path: str) -> Listing:
        """Returns what is in a directory; OSError where it cannot be listed."""
        stamp = _stamp(path)
        known = self._listings.before.get(path)
        if known is None or known.stamp != stamp:
            known = self._list(path, stamp)
        self._listings.now[path] = known
        return known

    def skill(self, path: str, source: str, root: SkillRoot) -> Checked:
        """Returns what is in a skill file, read from `source`, its real path; OSError where it cannot be read."""
        known = self._files.before.get(path)
        if known is None or known.root is not root or known.stamp != stamp_of(os.lstat(source)):
            known = self._read(path, source, root, known)
        self._files.now[path] = known
        return known.checked

    def _read(self, path: str, source: str, root: SkillRoot, known: FileRecord | None) -> FileRecord:
        read = read_skill_file(source)
        digest = hashlib.blake2b(read.data, digest_size=DIGEST_BYTES).digest()
        if known is not None and (known.digest, known.source, known.root) == (digest, source, root):
            return replace(known, stamp=read.stamp)
        # A linked file's body is kept, because it is read again without following links.
        options = replace(self._options, root=root, keep_body=path != source)
        return FileRecord(read.stamp, digest, source, root, check_skill(read.data, path, options))

    def _list(self, path: str, stamp: Stamp) -> Listing:
        now = time.time_ns()
        files: dict[str, bool] = {}
        directories: list[str] = []
        links: list[str] = []
        wanted = self._options.filename.casefold()
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.name.casefold() == wanted:
                    files[entry.name] = entry.is_symlink()
                elif entry.name.startswith(self._skip):
                    continue
                elif entry.is_symlink():
                    links.append(entry.name)
                elif entry.is_dir(follow_symlinks=False):
                    directories.append(entry.name)
        skill = pick(files, self._options.filename, any_case=self._options.mode == "lenient")
        return Listing(
            identity=stamp[:2],
            stamp=stamp if settled(stamp, now) else None,
            skill=skill,
            skill_is_link=skill is not None and files[skill],
            directories=tuple(sorted(directories)),
            links=tuple(sorted(links)),
        )


def _stamp(path: str) -> Stamp:
    return stamp_of(os.stat(path))  # noqa: PTH116 — a Path costs more than the stat
