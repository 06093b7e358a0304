"""Reads one SKILL.md from disk, without following a link or waiting for a device."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from sandbox_skills.catalog.diagnostics import Findings, Rule, diagnostic
from sandbox_skills.catalog.frontmatter import MAX_FILE, decode, split
from sandbox_skills.catalog.regular_file import open_regular
from sandbox_skills.catalog.text import printable
from sandbox_skills.errors import SkillLoadError

if TYPE_CHECKING:
    from collections.abc import Iterable

FILENAME = "SKILL.md"

SETTLED_NS = 2_000_000_000
"""Age at which a time stamp is believed: the coarsest file systems count in steps of two seconds."""

Stamp: TypeAlias = tuple[int, int, int, int, int]
"""Device, inode, size, mtime and ctime: what changes when a file or a directory does. A plain tuple, for speed."""


@dataclass(frozen=True, slots=True)
class FileRead:
    """The bytes of a file, at most one more than the parser takes; `stamp` is None where it may be stale."""

    data: bytes
    stamp: Stamp | None


def stamp_of(status: os.stat_result) -> Stamp:
    """Returns the stamp of a stat."""
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def settled(stamp: Stamp, now_ns: int) -> bool:
    """Whether a change after `now_ns` would show in the stamp: one within the same clock step would not."""
    return max(stamp[3:]) + SETTLED_NS < now_ns


def read_skill_file(path: str) -> FileRead:
    """Returns a regular file's bytes; OSError for what is missing, a link, or no regular file."""
    descriptor, status = open_regular(path, follow=False)
    try:
        stamp, now = stamp_of(status), time.time_ns()
        data = os.read(descriptor, min(status.st_size, MAX_FILE + 1))
        return FileRead(data, stamp if settled(stamp, now) else None)
    finally:
        os.close(descriptor)


def read_body(path: str) -> str:
    """Returns the Markdown of the SKILL.md at `path`; raises SkillLoadError where there is none."""
    found = Findings("lenient")
    try:
        text = decode(read_skill_file(path).data, found)
    except OSError as error:
        raise unreadable(path, error) from error
    document = split(text, found) if text is not None else None
    if document is None:
        raise SkillLoadError(path, found.errors)
    return document.body


def unreadable(path: str, error: OSError) -> SkillLoadError:
    """Returns the error for a file that the system does not give."""
    return SkillLoadError(path, [diagnostic(Rule.FILE_UNREADABLE, os_reason(error))])


def os_reason(error: OSError) -> str:
    """Returns the system's words for an error, without the path."""
    return printable(error.strerror or str(error))


def pick(names: Iterable[str], filename: str, *, any_case: bool) -> str | None:
    """Returns the entry that is the skill file: the exact name, else with `any_case` the first that folds to it."""
    wanted = filename.casefold()
    matches = sorted(name for name in names if name == filename or (any_case and name.casefold() == wanted))
    return filename if filename in matches else next(iter(matches), None)
