"""Directories of ours on the host: nobody else is to look into them, wherever the first of them is made.

One that lasts as long as its process is locked by it. The lock is the kernel's and ends with the process, however
that ends, so whoever finds a directory without one may remove it. Blocking.
"""

from __future__ import annotations

import errno
import fcntl
import os
import pwd
import shutil
import stat
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

PRIVATE = 0o700
"""The mode that the XDG directories are made with, too."""

NEUTRAL = Path("/var/lib/sandbox-skills")
"""Where what sandboxes see is kept if it can be: they read its path in their mount tables, and this one tells no name.

The file system standard's place for a program's state.
"""

_DISK_FAULTS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS})

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Account:
    """Whose process this is, by the host's own list of users: $HOME says what it likes."""

    uid: int
    name: str
    home: Path


def current_account() -> Account:
    """Returns the account of this process; one that the host has no entry for has no name, and / is its home."""
    uid = os.geteuid()
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return Account(uid, "", Path("/"))
    return Account(uid, entry.pw_name, Path(entry.pw_dir))


def tells_of(path: Path, account: Account) -> bool:
    """Tells whether a path has an account's name in it, or lies in its home directory. Pure."""
    at_home = account.home != Path("/") and path.is_relative_to(account.home)
    return at_home or account.name in path.parts


def neutral_directory(account: Account, *, base: Path = NEUTRAL) -> Path | None:
    """Returns the account's directory below `base`; None where it has none that nobody but root can change.

    Root's own need not be there yet. For another account root makes it: `doctor` tells how.
    """
    own = base / str(account.uid)
    if not _is_kept_by(base, 0, open_to_others=0o022):
        return None
    return own if _is_kept_by(own, account.uid, open_to_others=0o077) else None


def _is_kept_by(path: Path, uid: int, *, open_to_others: int) -> bool:
    """Tells whether a directory is that user's and none of others, or is root's to make."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        above = next(parent for parent in path.parents if parent.exists())
        return uid == 0 and os.access(above, os.W_OK, effective_ids=True)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == uid and not status.st_mode & open_to_others


def make_private(path: Path) -> None:
    """Makes a directory and those missing above it for this user alone; one that is there keeps its mode.

    Raises OSError.
    """
    for directory in (*reversed(path.parents), path):
        directory.mkdir(mode=PRIVATE, exist_ok=True)


def disk_failed(error: OSError) -> bool:
    """Whether a disk is full, over its quota, broken or read-only: nothing that the caller asked for is at fault."""
    return error.errno in _DISK_FAULTS


def remove_tree(path: Path) -> None:
    """Removes a directory that nobody else uses, whatever modes are in it; what is gone already is fine."""
    for directory, _, _ in os.walk(path):
        with suppress(FileNotFoundError):
            os.chmod(directory, PRIVATE)  # noqa: PTH101 - os.walk gives strings
    shutil.rmtree(path, ignore_errors=True)


@contextmanager
def owned_directory(parent: Path, prefix: str) -> Generator[Path]:
    """Gives an empty directory of this process in `parent`; it is removed afterwards, or by a later sweep.

    Raises OSError where it cannot be made.
    """
    path, lock_fd = _locked_directory(parent, prefix)
    try:
        yield path
    finally:
        remove_tree(path)
        os.close(lock_fd)


def sweep_owned(parent: Path, prefix: str) -> list[str]:
    """Removes the directories of `owned_directory` whose process is gone; returns their names.

    Those of other users stay, so `parent` may be the system's place for temporary files. Raises OSError where
    `parent` cannot be listed; one that is not there has nothing in it.
    """
    if not parent.is_dir():
        return []
    found = sorted(path for path in parent.iterdir() if path.name.startswith(prefix))
    return [path.name for path in found if _remove_dead(path)]


def abandoned(parent: Path, prefix: str) -> list[str]:
    """Returns the names of what `sweep_owned` would remove. Raises OSError where `parent` cannot be listed."""
    if not parent.is_dir():
        return []
    return sorted(path.name for path in parent.iterdir() if path.name.startswith(prefix) and _is_dead(path))


def _locked_directory(parent: Path, prefix: str) -> tuple[Path, int]:
    """Makes a directory and locks it; makes another one where a sweep came in between."""
    while True:
        path = Path(tempfile.mkdtemp(dir=parent, prefix=prefix))
        with suppress(FileNotFoundError):
            lock_fd = os.open(path, _DIRECTORY)
            fcntl.flock(lock_fd, fcntl.LOCK_EX)
            if _is_at(path, lock_fd):
                return path, lock_fd
            os.close(lock_fd)


def _remove_dead(path: Path) -> bool:
    """Removes a directory of this user that nobody holds; returns whether it did."""
    with _held(path) as held:
        if held:
            # Held until it is gone: a process that has only just made it waits, and sees that.
            remove_tree(path)
        return held


def _is_dead(path: Path) -> bool:
    with _held(path) as held:
        return held


@contextmanager
def _held(path: Path) -> Generator[bool]:
    """Locks a directory of this user; gives whether it is one, and nobody else holds it."""
    try:
        lock_fd = os.open(path, _DIRECTORY)
    except OSError:
        yield False
        return
    try:
        yield os.fstat(lock_fd).st_uid == os.geteuid() and _locks(lock_fd) and _is_at(path, lock_fd)
    finally:
        os.close(lock_fd)


def _locks(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
