"""The files that a skill brings along: listed with a cap, read in pages, never outside its directory. Blocking."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_skills.catalog.text import printable
from sandbox_skills.errors import InputError, PathEscapeError, SkillLoadError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandbox_skills.catalog.skill import SkillSpec

MAX_LISTED = 1_000
"""Names in each group: 99 % of skills have 42 files in all, the largest has 1,104."""

_MAX_SEEN = 10_000
"""Entries of one directory that are looked at: no skill with more files can be staged."""

MAX_RESOURCE = 65_536
"""Bytes of one page: what fits beside a conversation."""

_MAX_PATH = 4096
"""Linux's PATH_MAX."""

_LONGEST_CHARACTER = 4
"""Bytes of the longest UTF-8 character."""

_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


@dataclass(frozen=True, slots=True)
class SkillResources:
    """Names one level deep, sorted; `other` are files at the top. `truncated` says that a group was cut."""

    scripts: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    assets: tuple[str, ...] = ()
    other: tuple[str, ...] = ()
    truncated: bool = False

    def __bool__(self) -> bool:
        return bool(self.scripts or self.references or self.assets or self.other)


@dataclass(frozen=True, slots=True)
class ResourcePage:
    """A part of one file. `size` is the whole file's; `next_offset` None says that this page ends it.

    `text` is None where the page is not UTF-8. A page never ends within a character.
    """

    data: bytes
    offset: int
    size: int
    next_offset: int | None
    text: str | None


def list_skill_resources(spec: SkillSpec) -> SkillResources:
    """Returns the names of the skill's files in `scripts`, `references`, `assets` and at its top.

    A linked directory or a link that leaves the skill is not listed. Raises SkillLoadError where the skill has gone.
    """
    root = _real(Path(spec.dir))
    try:
        top = set(_files(root, root))
    except OSError as error:
        raise SkillLoadError(spec.path, [], hint="Scan again.") from error
    top.discard(Path(spec.path).name)
    groups = [_group(root, name) for name in ("scripts", "references", "assets")]
    groups.append(sorted(top))
    scripts, references, assets, other = (tuple(group[:MAX_LISTED]) for group in groups)
    truncated = any(len(group) > MAX_LISTED for group in groups)
    return SkillResources(scripts, references, assets, other, truncated)


def _group(root: Path, name: str) -> list[str]:
    path = root / name
    if path.is_symlink():
        return []
    try:
        return sorted(_files(path, root))
    except OSError:
        return []  # a skill need not have the directory, and one that cannot be listed cannot be read


def _files(path: Path, root: Path) -> Iterator[str]:
    for entry in islice(path.iterdir(), _MAX_SEEN):
        if entry.is_file() and (not entry.is_symlink() or root in _real(entry).parents):
            yield entry.name


def read_skill_resource(
    spec: SkillSpec, relative_path: str, *, offset: int = 0, max_bytes: int = MAX_RESOURCE
) -> ResourcePage:
    """Returns one page of a file of the skill, from `offset` bytes on.

    Raises PathEscapeError for an absolute path, a `..`, or a link that leaves the skill, and InputError where
    there is no such regular file or the numbers make no sense.
    """
    if offset < 0 or max_bytes < _LONGEST_CHARACTER:
        raise InputError(f"offset {offset} or max_bytes {max_bytes} is too small")
    descriptor = open_skill_file(spec.dir, relative_path)
    try:
        return _page(descriptor, offset, max_bytes)
    finally:
        os.close(descriptor)


def open_skill_file(directory: str, relative_path: str) -> int:
    """Opens a regular file below a skill's directory for reading and returns the descriptor.

    Links inside the directory are followed. Raises PathEscapeError for an absolute path, a `..`, or a link that
    leaves, and InputError where there is no such regular file.
    """
    _check_relative(relative_path)
    shown = printable(relative_path)
    root = _real(Path(directory))
    real = _real(root / relative_path)
    if root not in real.parents:
        raise PathEscapeError(f"{shown!r} leads outside the skill", hint="Name a file of the skill.")
    try:
        descriptor = _open_below(root, real.relative_to(root))
    except OSError as error:
        raise InputError(
            f"{shown!r} cannot be read: {error.strerror}", hint="List the skill's files."
        ) from error
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise InputError(f"{shown!r} is not a regular file", hint="List the skill's files.")


def _check_relative(path: str) -> None:
    if not path or "\0" in path or len(path) > _MAX_PATH or not _is_name(path):
        raise InputError(
            "the path is empty, too long, or no name that a file can have", hint="Name a file of the skill."
        )
    if path.startswith("/") or ".." in path.replace("\\", "/").split("/"):
        raise PathEscapeError(
            f"{printable(path)!r} is absolute or has '..'",
            hint="Name a file relative to the skill's directory.",
        )


def _is_name(text: str) -> bool:
    """Whether the system has bytes for it; halves of characters have none, unless they stand for a byte themselves."""
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True


def _real(path: Path) -> Path:
    """Path.resolve raises RuntimeError for a loop of links; this leaves it for `open` to refuse."""
    return Path(os.path.realpath(path))


def _open_below(root: Path, relative: Path) -> int:
    """Opens a path that has no links any more: one put there since is refused, not followed."""
    at = os.open(root, _OPEN | os.O_DIRECTORY)
    for name in relative.parts:
        try:
            step = os.open(name, _OPEN, dir_fd=at)
        finally:
            os.close(at)
        at = step
    return at


def _page(descriptor: int, offset: int, max_bytes: int) -> ResourcePage:
    status = os.fstat(descriptor)
    data = os.pread(descriptor, max_bytes, offset)
    text, length = _whole_characters(data, more=offset + len(data) < status.st_size)
    end = offset + length
    return ResourcePage(data[:length], offset, status.st_size, end if end < status.st_size else None, text)


def _whole_characters(data: bytes, *, more: bool) -> tuple[str | None, int]:
    """Returns the text of `data` and how many bytes it is, without a character that is cut at its end."""
    try:
        return data.decode(), len(data)
    except UnicodeDecodeError as error:
        if more and error.reason == "unexpected end of data":
            return data[: error.start].decode(), error.start
        return None, len(data)
