"""A directory of skills in which skills appear, change and vanish in one step. Blocking.

    ROOT/.define-lock    held by the one writer; several processes may share a root
    ROOT/.define-work    a skill that is being written, or on its way out
    ROOT/.define-old/    the skill that is being replaced: put back where its successor did not arrive

Scans skip names that start with a dot. Every name is opened from its directory, so no link is ever followed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from sandbox_skills.catalog.define_files import tool_of
from sandbox_skills.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from pathlib import Path

_LOCK, _WORK, _OLD = ".define-lock", ".define-work", ".define-old"

_MAX_ENTRIES = 8
"""Names in one directory: a skill made here has four, so one with more is not ours, whatever they are."""

_MAX_FILE = 512 * 1024
"""Bytes of one file: twice the longest manifest, the longest thing that is written here."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class _NotOursError(Exception):
    """A skill has something in it that is never made here."""


class SkillReader:
    """What has the name of a skill in one directory. Such a name has no separator, and no dot first."""

    def __init__(self, root_fd: int) -> None:
        self._root = root_fd

    def exists(self, skill: str) -> bool:
        """Whether anything has that name, a link to nothing included."""
        return _kind(self._root, skill) is not None

    def tool_of(self, skill: str) -> str | None:
        """Returns the tool for which the skill was made here; None for any other skill, or one changed since."""
        try:
            return tool_of(_read_tree(self._root, skill))
        except (_NotOursError, OSError):
            return None


class SkillWriter(SkillReader):
    """Changes the skills of one directory. Raises OSError."""

    def put(self, skill: str, files: Mapping[str, bytes]) -> None:
        """Makes a skill of these files, in place of the one of that name if there is one."""
        _write_tree(self._root, _WORK, files)
        if self.exists(skill):
            os.mkdir(_OLD, dir_fd=self._root)
            os.rename(skill, f"{_OLD}/{skill}", src_dir_fd=self._root, dst_dir_fd=self._root)
        os.rename(_WORK, skill, src_dir_fd=self._root, dst_dir_fd=self._root)
        os.fsync(self._root)

    def remove(self, skill: str) -> None:
        """Takes a skill away."""
        os.rename(skill, _WORK, src_dir_fd=self._root, dst_dir_fd=self._root)
        os.fsync(self._root)

    def recover(self) -> None:
        """Puts back a skill whose successor did not arrive, and deletes what is left of the rest."""
        if _kind(self._root, _OLD) == stat.S_IFDIR:
            for skill in _names(self._root, _OLD):
                if not self.exists(skill):
                    os.rename(f"{_OLD}/{skill}", skill, src_dir_fd=self._root, dst_dir_fd=self._root)
        _discard(self._root, _OLD)
        _discard(self._root, _WORK)


@contextmanager
def reading(root: Path) -> Generator[SkillReader]:
    """Gives what is in `root` while others may write. Raises OSError where it is no directory."""
    root_fd = os.open(root, _DIRECTORY)
    try:
        yield SkillReader(root_fd)
    finally:
        os.close(root_fd)


@contextmanager
def writing(root: Path) -> Generator[SkillWriter]:
    """Gives the only writer of `root`, which is made where it is missing; waits for the one before.

    What a writer that died left half done is put right first. Raises SettingsError where `root` cannot be written.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        root_fd = os.open(root, _DIRECTORY)
        try:
            with _locked(root_fd):
                yield from _recovering(SkillWriter(root_fd))
        finally:
            os.close(root_fd)
    except OSError as error:
        reason = error.strerror or error
        raise SettingsError(f"skills cannot be written to {root}: {reason}") from error


@contextmanager
def _locked(root_fd: int) -> Generator[None]:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    lock_fd = os.open(_LOCK, flags, 0o600, dir_fd=root_fd)
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock_fd)


def _recovering(writer: SkillWriter) -> Generator[SkillWriter]:
    writer.recover()
    try:
        yield writer
    finally:
        writer.recover()


def _kind(at: int, name: str) -> int | None:
    """Returns the type of what has that name, itself and not what it links to."""
    try:
        return stat.S_IFMT(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return None


def _names(at: int, directory: str) -> list[str]:
    descriptor = os.open(directory, _DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
    try:
        return sorted(os.listdir(descriptor))  # noqa: PTH208 — a Path cannot list a descriptor
    finally:
        os.close(descriptor)


def _discard(at: int, name: str) -> None:
    if _kind(at, name) == stat.S_IFDIR:
        shutil.rmtree(name, dir_fd=at)
    else:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=at)


def _write_tree(at: int, name: str, files: Mapping[str, bytes]) -> None:
    os.mkdir(name, dir_fd=at)
    directory = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
    try:
        for folder in sorted({path.partition("/")[0] for path in files if "/" in path}):
            os.mkdir(folder, dir_fd=directory)
        for path, content in files.items():
            with os.fdopen(os.open(path, _CREATE, 0o644, dir_fd=directory), "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        os.fsync(directory)
    finally:
        os.close(directory)


def _read_tree(at: int, directory: str, prefix: str = "") -> dict[str, bytes]:
    """Returns the files of a skill, one directory deep; raises _NotOursError for what is never made here."""
    descriptor = os.open(directory, _DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
    try:
        names = os.listdir(descriptor)  # noqa: PTH208 — likewise
        if len(names) > _MAX_ENTRIES or not names:
            raise _NotOursError
        files: dict[str, bytes] = {}
        for name in names:
            if _kind(descriptor, name) != stat.S_IFDIR:
                files[prefix + name] = _read(descriptor, name)
            elif prefix:
                raise _NotOursError
            else:
                files |= _read_tree(descriptor, name, f"{name}/")
        return files
    finally:
        os.close(descriptor)


def _read(at: int, name: str) -> bytes:
    with os.fdopen(os.open(name, _READ, dir_fd=at), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise _NotOursError
        content = file.read(_MAX_FILE + 1)
    if len(content) > _MAX_FILE:
        raise _NotOursError
    return content
