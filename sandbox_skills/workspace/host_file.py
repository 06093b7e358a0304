"""One collected file on its way into a directory of the host, which the box cannot steer.

Nothing below that directory is opened through a link, and the file has its name only when it is whole.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import ExitStack, suppress
from pathlib import PurePosixPath
from typing import Literal

from sandbox_skills.errors import PathEscapeError
from sandbox_skills.workspace.paths import open_inside

Kind = Literal["directory", "link", "file"]

DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC

_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC

_COMPARED = 1 << 20
"""Bytes of two files that are compared at once: most outputs are smaller."""

_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
"""How a file system says that it has no second name for a file: FAT, some network and FUSE file systems."""


class InTheWayError(Exception):
    """Something has a name that the file, or a directory above it, was to have; `path` is below the root."""

    def __init__(self, kind: Kind, path: PurePosixPath) -> None:
        super().__init__(kind, path)
        self.kind = kind
        self.path = path


class PartialFile:
    """A file under another name in its directory, until it is whole.

    The directory stays open meanwhile, so it does not matter what its path leads to by then. It is made where it is
    missing. Raises InTheWayError where that cannot be, PathEscapeError for a path that leaves, OSError.
    """

    def __init__(self, root: int, path: PurePosixPath) -> None:
        self._path = path
        self._partial = f".{secrets.token_hex(8)}.partial"
        self._parent = _open_made(root, path.parent)
        try:
            # What the box calls a program is none here: only the host's umask has a say.
            self._file = os.open(self._partial, _NEW_FILE, 0o666, dir_fd=self._parent)
        except OSError:
            os.close(self._parent)
            raise

    def write(self, data: bytes) -> None:
        """Adds some bytes at the end."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]

    def commit(self, *, overwrite: bool) -> bool:
        """Gives the file its name, with `overwrite` in place of a file or link that has it, and ends.

        Returns False, having changed nothing, where another file, or a link, keeps the name; a file of the very same
        bytes is as good as this one. Raises InTheWayError for a directory. A failure leaves no part behind.
        """
        try:
            if overwrite:
                self._replace()
                return True
            return self._name_unless_taken() or self._same_is_there()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Removes what there is of the file, unless it has its name, and ends."""
        with suppress(OSError):  # gone already, or out of reach with its disk
            os.unlink(self._partial, dir_fd=self._parent)
        os.close(self._file)
        os.close(self._parent)

    def _replace(self) -> None:
        try:
            os.replace(self._partial, self._path.name, src_dir_fd=self._parent, dst_dir_fd=self._parent)
        except IsADirectoryError:
            raise InTheWayError("directory", self._path) from None

    def _name_unless_taken(self) -> bool:
        name, parent = self._path.name, self._parent
        try:
            os.link(self._partial, name, src_dir_fd=parent, dst_dir_fd=parent, follow_symlinks=False)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            if kind_of(parent, name) is not None:
                return False
            self._replace()
        return True

    def _same_is_there(self) -> bool:
        if kind_of(self._parent, self._path.name) == "directory":
            raise InTheWayError("directory", self._path)
        try:
            there = os.open(self._path.name, _OLD_FILE, dir_fd=self._parent)
        except OSError:  # a link, or nothing of ours to read
            return False
        try:
            return _same_bytes(there, self._file)
        finally:
            os.close(there)


def write_whole(root: int, path: PurePosixPath, data: bytes) -> None:
    """Writes a file below `root` in place of one that is there; raises as `PartialFile` does, and leaves no part."""
    file = PartialFile(root, path)
    try:
        file.write(data)
    except OSError:
        file.abandon()
        raise
    file.commit(overwrite=True)


def kind_of(directory: int, name: str) -> Kind | None:
    """Returns what has a name in an open directory, None for nothing; whatever is neither of two is a file."""
    try:
        mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        return "directory"
    return "link" if stat.S_ISLNK(mode) else "file"


def _same_bytes(one: int, other: int) -> bool:
    """Tells whether two open files are regular and have the same content."""
    status, size = os.fstat(one), os.fstat(other).st_size
    if not stat.S_ISREG(status.st_mode) or status.st_size != size:
        return False
    pieces = range(0, size, _COMPARED)
    return all(os.pread(one, _COMPARED, at) == os.pread(other, _COMPARED, at) for at in pieces)


def _open_made(root: int, path: PurePosixPath) -> int:
    """Opens a directory below `root`, making what is missing; no link is followed."""
    with ExitStack() as stack:
        at, done = root, PurePosixPath()
        for part in path.parts:
            done /= part
            with suppress(FileExistsError):
                os.mkdir(part, dir_fd=at)
            try:
                below = open_inside(at, PurePosixPath(part), DIRECTORY)
            except (PathEscapeError, NotADirectoryError):
                kind = kind_of(at, part)
                if kind in {"link", "file"}:
                    raise InTheWayError(kind, done) from None
                raise
            stack.callback(os.close, below)
            at = below
        return os.dup(at)
