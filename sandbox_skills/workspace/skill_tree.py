"""Looks into a skill folder that nobody trusts: what is in it, and whether it can be staged.

Directories are opened one from another and links are never followed, so nothing outside is ever looked at.
"""

from __future__ import annotations

import os
import stat
import unicodedata
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal

from sandbox_skills.errors import PathEscapeError, SkillUnsafeError
from sandbox_skills.spec import MIB, UNSTAGED_FOLDERS
from sandbox_skills.workspace.paths import follow_inside, name_fault, shown

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_NAMED = 5
"""Paths that one note names; the rest is counted."""

_SPECIAL_BITS = stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class StageLimits:
    """Ceilings for one skill. Of about 20,000 public skills the largest has 1,104 files and 14.6 MB."""

    entries: int = 10_000
    """Files, links and directories: nine times the largest, room for a shipped `node_modules`."""

    total_bytes: int = 512 * MIB
    """Thirty-five times the largest; a cold stage of it still takes seconds, not minutes."""

    file_bytes: int = 100 * MIB
    """What the usual Git hosts accept for one file, so a published skill has none above it."""

    depth: int = 32
    """Directories in one another: more than a nested `node_modules` has; each holds a descriptor in a scan."""

    path_bytes: int = 1024
    """Leaves three quarters of PATH_MAX to whatever a run puts in front."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing in a skill. `path` is relative; `stamp` changes whenever what is in a file or directory may have."""

    path: PurePosixPath
    kind: Literal["directory", "file", "link"]
    size: int = 0
    executable: bool = False
    target: str = ""
    stamp: tuple[int, ...] = ()

    @property
    def modified_ns(self) -> int:
        """When the bytes of a file were last changed, in nanoseconds."""
        return self.stamp[-2]


@dataclass(frozen=True, slots=True)
class SkillTree:
    """What a scan saw, sorted by path. `newest_ns` is the newest ctime of a file."""

    entries: tuple[Entry, ...]
    notes: tuple[str, ...] = ()
    newest_ns: int = 0

    @property
    def files(self) -> int:
        """Number of regular files."""
        return sum(entry.kind == "file" for entry in self.entries)

    @property
    def bytes(self) -> int:
        """Size of all regular files together."""
        return sum(entry.size for entry in self.entries)

    @property
    def names(self) -> frozenset[str]:
        """Names in the root of the skill."""
        return frozenset(entry.path.parts[0] for entry in self.entries)


def scan(root_fd: int, limits: StageLimits) -> SkillTree:
    """Returns what the skill folder open at `root_fd` holds, without reading a file.

    Raises SkillUnsafeError, naming the path, for whatever cannot be staged.
    """
    scanner = _Scanner(limits)
    try:
        scanner.directory(root_fd, ".", PurePosixPath())
    except OSError as error:
        raise SkillUnsafeError(
            f"{shown(str(error.filename))} in the skill cannot be read: {error.strerror}"
        ) from error
    entries = tuple(sorted(scanner.entries, key=lambda entry: entry.path.parts))
    dangling = _check_links(entries)
    notes = [
        *_note("left out", scanner.skipped),
        *_note("setuid, setgid or sticky bit removed", scanner.stripped),
        *_note("link to nothing", dangling),
    ]
    newest = max((entry.stamp[-1] for entry in entries if entry.kind == "file"), default=0)
    return SkillTree(entries, tuple(notes), newest)


@dataclass(slots=True)
class _Scanner:
    limits: StageLimits
    entries: list[Entry] = field(default_factory=list[Entry])
    skipped: list[PurePosixPath] = field(default_factory=list[PurePosixPath])
    stripped: list[PurePosixPath] = field(default_factory=list[PurePosixPath])
    total: int = 0

    def directory(self, above_fd: int, name: str, path: PurePosixPath) -> None:
        directory_fd = os.open(name, _DIRECTORY, dir_fd=above_fd)
        try:
            with os.scandir(directory_fd) as found:
                for item in found:
                    if item.name in UNSTAGED_FOLDERS:
                        self.skipped.append(path / item.name)
                    else:
                        self._add(directory_fd, path / item.name, item.stat(follow_symlinks=False))
        finally:
            os.close(directory_fd)

    def _add(self, directory_fd: int, path: PurePosixPath, status: os.stat_result) -> None:
        self._check_path(path)
        if len(self.entries) >= self.limits.entries:
            raise SkillUnsafeError(f"the skill has more than {self.limits.entries} files")
        if status.st_mode & _SPECIAL_BITS and not stat.S_ISLNK(status.st_mode):
            self.stripped.append(path)
        if stat.S_ISDIR(status.st_mode):
            self._enter(directory_fd, path, status)
        elif stat.S_ISREG(status.st_mode):
            self._file(path, status)
        elif stat.S_ISLNK(status.st_mode):
            target = os.readlink(path.name, dir_fd=directory_fd)
            self._check_target(path, target)
            self.entries.append(Entry(path, "link", target=target))
        else:
            raise SkillUnsafeError(f"{shown(str(path))} is a {_special_kind(status.st_mode)}")

    def _enter(self, directory_fd: int, path: PurePosixPath, status: os.stat_result) -> None:
        if len(path.parts) > self.limits.depth:
            raise SkillUnsafeError(f"{shown(str(path))} is deeper than {self.limits.depth} directories")
        self.entries.append(Entry(path, "directory", stamp=status_stamp(status)))
        self.directory(directory_fd, path.name, path)

    def _file(self, path: PurePosixPath, status: os.stat_result) -> None:
        self.total += status.st_size
        if status.st_size > self.limits.file_bytes:
            raise SkillUnsafeError(f"{shown(str(path))} has more than {self.limits.file_bytes} bytes")
        if self.total > self.limits.total_bytes:
            raise SkillUnsafeError(f"the skill has more than {self.limits.total_bytes} bytes")
        executable = bool(status.st_mode & 0o111)
        self.entries.append(Entry(path, "file", status.st_size, executable, stamp=status_stamp(status)))

    def _check_path(self, path: PurePosixPath) -> None:
        fault = name_fault(path.name)
        if not fault and any(unicodedata.category(character) == "Cc" for character in path.name):
            fault = "contains a control character"
        if not fault and len(str(path).encode()) > self.limits.path_bytes:
            fault = f"has a path longer than {self.limits.path_bytes} bytes"
        if fault:
            raise SkillUnsafeError(f"{shown(str(path))} {fault}")

    def _check_target(self, path: PurePosixPath, target: str) -> None:
        faults = [name_fault(part) for part in target.split("/") if part not in {"", ".", ".."}]
        fault = next((fault for fault in faults if fault), "")
        # An honest link climbs at most to the root and down again; each further step only costs work.
        if not fault and target.count("/") > 2 * self.limits.depth:
            fault = "has too many names"
        if fault:
            raise SkillUnsafeError(f"{shown(str(path))} links to {shown(target)}, which {fault}")


def status_stamp(status: os.stat_result) -> tuple[int, ...]:
    """Returns what tells one state of a file from another; the times come last, ctime after mtime."""
    return (
        status.st_dev,
        status.st_ino,
        status.st_mode,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


def _special_kind(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "FIFO"
    return "socket" if stat.S_ISSOCK(mode) else "device"


def _check_links(entries: Iterable[Entry]) -> list[PurePosixPath]:
    """Returns the links that lead to nothing; raises SkillUnsafeError for those that lead out or in a circle."""
    known = {entry.path: entry for entry in entries}
    dangling: list[PurePosixPath] = []

    def target(path: PurePosixPath) -> str | None:
        return known[path].target or None if path in known else None

    for entry in known.values():
        if entry.kind != "link":
            continue
        try:
            end = follow_inside(entry.path, target)
        except PathEscapeError as error:
            raise SkillUnsafeError(
                f"{shown(str(entry.path))} links to {shown(entry.target)}: {error.message}",
                hint="a link in a skill must be relative and stay inside the skill",
            ) from error
        if end.parts and end not in known:
            dangling.append(entry.path)
    return dangling


def _note(what: str, paths: list[PurePosixPath]) -> list[str]:
    if not paths:
        return []
    named = ", ".join(shown(str(path)) for path in sorted(paths)[:MAX_NAMED])
    more = f" and {len(paths) - MAX_NAMED} more" if len(paths) > MAX_NAMED else ""
    return [f"{what}: {named}{more}"]
