"""What an archive comes to, counted while it is unpacked. Pure."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from sandbox_skills.errors import SourceError
from sandbox_skills.workspace.paths import shown

if TYPE_CHECKING:
    from sandbox_skills.install.members import Member
    from sandbox_skills.workspace.skill_tree import StageLimits


class Accountant:
    """Counts what an archive unpacks to, and knows every name in it; raises SourceError at the first excess."""

    def __init__(self, limits: StageLimits, *, packed_bytes: int, ratio: int, free_bytes: int) -> None:
        self._limits = limits
        self._most = min(limits.total_bytes, max(packed_bytes * ratio, free_bytes))
        self._bytes = 0
        self._told_bytes = 0
        self._folded: dict[str, tuple[str, bool]] = {}

    def admit(self, member: Member) -> None:
        """Counts a member, its name and the size that it is told to have, before anything of it is read."""
        path = str(member.path)
        if len(member.path.parts) > self._limits.depth or len(path.encode()) > self._limits.path_bytes:
            raise SourceError(f"{shown(path)} is too deep or too long")
        if member.size > self._limits.file_bytes:
            raise SourceError(f"{shown(path)} has more than {self._limits.file_bytes} bytes")
        # A directory of a tar may tell a size, too, which is none of its content's.
        self._told_bytes += member.size if member.kind == "file" else 0
        self._refuse_above_most(self._told_bytes)
        for end in range(1, len(member.path.parts)):
            self._name("/".join(member.path.parts[:end]), leaf=False)
        self._name(path, leaf=member.kind != "directory")

    def _name(self, path: str, *, leaf: bool) -> None:
        """Two names that some file system takes for one would overwrite each other there."""
        folded = unicodedata.normalize("NFC", path).casefold()
        known = self._folded.get(folded)
        if known is None:
            self._folded[folded] = (path, leaf)
        elif known != (path, False) or leaf:
            raise SourceError(
                f"{shown(path)} and {shown(known[0])} are one name on some file systems, or twice there"
            )
        self.expect(len(self._folded))

    def expect(self, members: int) -> None:
        """Refuses more members than may be, where their number is known before any of them is looked at."""
        if members > self._limits.entries:
            raise SourceError(f"the archive has more than {self._limits.entries} files and directories")

    def count(self, number: int) -> None:
        """Counts bytes that were unpacked."""
        self._bytes += number
        self._refuse_above_most(self._bytes)

    def _refuse_above_most(self, number: int) -> None:
        if number > self._most:
            raise SourceError(f"the archive unpacks to more than {self._most} bytes")

    def reset(self) -> None:
        """Starts to count the bytes anew: the plain tar within a compressed one is no part of the skill."""
        self._bytes = 0
