"""A skill that came file by file, as a client sends a folder: the same rules as for an archive. Blocking."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import IO, TYPE_CHECKING

from sandbox_skills.install.accountant import Accountant
from sandbox_skills.install.members import Member, member_path
from sandbox_skills.install.unpack import write_members

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from sandbox_skills.workspace.skill_tree import StageLimits

_PROGRAM = b"#!"
"""What a program for an interpreter begins with: a form has no room for a mode."""


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """One file as it came: the name that the sender gave it, and where its bytes lie now."""

    name: str
    path: Path


def assemble(files: Sequence[ReceivedFile], target: Path, limits: StageLimits) -> None:
    """Fills the empty directory `target` with files under the names that were given.

    What begins with `#!` becomes executable. Raises SourceError for a name that could be two files or lie elsewhere,
    and for anything over the limits; what was written by then stays for the caller to remove.
    """
    total = sum(file.path.stat().st_size for file in files)
    accountant = Accountant(limits, packed_bytes=total, ratio=1, free_bytes=0)
    write_members(_members(files), target, accountant)


def _members(files: Iterable[ReceivedFile]) -> Iterator[Member]:
    for file in files:
        with file.path.open("rb") as opened:
            executable = opened.read(len(_PROGRAM)) == _PROGRAM
        yield Member(
            path=member_path(file.name),
            kind="file",
            size=file.path.stat().st_size,
            executable=executable,
            open=partial(_bytes, file.path),
        )


def _bytes(path: Path) -> IO[bytes]:
    return path.open("rb")
