"""A skill as a zip, made while it is sent: equal content gives equal bytes, and sent back it is the same skill."""

from __future__ import annotations

import os
import stat
import zipfile
from typing import IO, TYPE_CHECKING, cast

from sandbox_skills.spec import KIB
from sandbox_skills.workspace.paths import open_inside, open_root
from sandbox_skills.workspace.skill_tree import StageLimits, scan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from sandbox_skills.workspace.skill_tree import Entry

CHUNK = 256 * KIB
"""Bytes that are read at once: past this packing does not get faster."""

_UNIX = 3
_NO_TIME = (1980, 1, 1, 0, 0, 0)
"""The earliest that a zip can say: no version has a time of its own, and equal content gives equal bytes."""

_MODES = {"directory": stat.S_IFDIR | 0o755, "link": stat.S_IFLNK | 0o777, "file": stat.S_IFREG | 0o644}
_EXECUTABLE = 0o111


def packed(folder: Path, *, limits: StageLimits | None = None) -> Iterator[bytes]:
    """Yields a zip with the skill in `folder` below its folder's name, piece by piece. Blocking.

    Raises SkillUnsafeError for a folder that cannot be staged, before the first bytes.
    """
    with open_root(folder) as root_fd:
        tree = scan(root_fd, limits or StageLimits())
        yield from filter(None, _pieces(root_fd, tree.entries, folder.name))


def _pieces(root_fd: int, entries: Iterable[Entry], top: str) -> Iterator[bytes]:
    sink = _Sink()
    with zipfile.ZipFile(cast("IO[bytes]", sink), "w", zipfile.ZIP_DEFLATED) as archive:
        for entry in entries:
            info = _info(top, entry)
            if entry.kind == "file":
                yield from _file(archive, info, root_fd, entry, sink)
            else:
                archive.writestr(info, entry.target.encode())
                yield sink.drained()
    yield sink.drained()


def _file(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, root_fd: int, entry: Entry, sink: _Sink
) -> Iterator[bytes]:
    file_fd = open_inside(root_fd, entry.path, os.O_RDONLY)
    with os.fdopen(file_fd, "rb") as source, archive.open(info, "w") as member:
        while data := source.read(CHUNK):
            member.write(data)
            yield sink.drained()


def _info(top: str, entry: Entry) -> zipfile.ZipInfo:
    slash = "/" if entry.kind == "directory" else ""
    info = zipfile.ZipInfo(f"{top}/{entry.path}{slash}", _NO_TIME)
    info.create_system = _UNIX
    info.compress_type = zipfile.ZIP_DEFLATED if entry.kind == "file" else zipfile.ZIP_STORED
    mode = _MODES[entry.kind] | (_EXECUTABLE if entry.executable else 0)
    info.external_attr = mode << 16
    return info


class _Sink:
    """What a zip is written to that goes straight on; it cannot seek, so sizes stand behind each member."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._pieces.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Does nothing: nothing is held back."""

    def drained(self) -> bytes:
        """Returns what was written since the last time."""
        data = b"".join(self._pieces)
        self._pieces.clear()
        return data
