"""The members of an archive that nobody trusts, whatever its kind: each checked before a byte of it is read."""

from __future__ import annotations

import stat
import unicodedata
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, Literal

from sandbox_skills.errors import SourceError
from sandbox_skills.spec import MIB
from sandbox_skills.workspace.paths import name_fault, shown

if TYPE_CHECKING:
    import tarfile
    import zipfile
    from collections.abc import Callable, Iterator

MAX_READ = 4 * MIB
"""Bytes that an archive may have read at once: 10,000 entries of a zip's directory with names of 300 bytes, and far
more than any extended header of a tar. Both are read whole, before any limit of ours could count them."""

_ENCRYPTED = 0x1
_UNIX = 3


@dataclass(frozen=True, slots=True)
class Member:
    """One thing in an archive. `open` gives the bytes of a file; `size` is what the archive says, not what comes."""

    path: PurePosixPath
    kind: Literal["directory", "file", "link"]
    size: int
    executable: bool
    open: Callable[[], IO[bytes]]


class BoundedReads:
    """A file of which nothing large is read at once, for libraries that believe the sizes in it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, size: int = -1) -> bytes:
        """Reads like a file; raises SourceError for more than MAX_READ."""
        if size > MAX_READ:
            raise SourceError(f"the archive has a header of {size} bytes")
        data = self._file.read(MAX_READ + 1 if size < 0 else size)
        if len(data) > MAX_READ:
            raise SourceError(f"the archive has a header of more than {MAX_READ} bytes")
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        """Moves like a file."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Tells like a file."""
        return self._file.tell()

    def seekable(self) -> bool:
        """Says that it can."""
        return True


def zip_members(archive: zipfile.ZipFile) -> Iterator[Member]:
    """Yields the members of a zip; raises SourceError for one that is neither file, directory nor symlink."""
    for info in archive.infolist():
        if info.flag_bits & _ENCRYPTED:
            raise SourceError(f"{shown(info.filename)} is encrypted")
        if info.filename != info.orig_filename:
            raise SourceError(f"the name {shown(info.orig_filename)} contains a NUL")
        # Programs of other systems leave the upper half alone, or mean something else by it.
        mode = info.external_attr >> 16 if info.create_system == _UNIX else 0
        kind = "directory" if info.is_dir() else _kind(stat.S_IFMT(mode) or stat.S_IFREG, info.filename)
        yield Member(
            path=member_path(info.filename),
            kind=kind,
            size=info.file_size,
            executable=bool(mode & 0o111),
            open=partial(archive.open, info),
        )


def tar_members(archive: tarfile.TarFile) -> Iterator[Member]:
    """Yields the members of a tar; raises SourceError for hard links, devices and FIFOs."""
    for info in archive:
        if info.name in {"", ".", "./"} and info.isdir():
            continue
        yield Member(
            path=member_path(info.name),
            kind=_kind(_tar_type(info), info.name),
            size=len(info.linkname.encode(errors="surrogateescape")) if info.issym() else info.size,
            executable=bool(info.mode & 0o111),
            open=partial(_tar_bytes, archive, info),
        )


def _tar_type(info: tarfile.TarInfo) -> int:
    if info.isreg():
        return stat.S_IFREG
    if info.isdir():
        return stat.S_IFDIR
    return stat.S_IFLNK if info.issym() else 0


def _tar_bytes(archive: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    if info.issym():
        return BytesIO(info.linkname.encode(errors="surrogateescape"))
    opened = archive.extractfile(info)
    if opened is None:
        raise SourceError(f"{shown(info.name)} has no bytes")
    return opened


def _kind(file_type: int, name: str) -> Literal["directory", "file", "link"]:
    if file_type == stat.S_IFDIR:
        return "directory"
    if file_type == stat.S_IFREG:
        return "file"
    if file_type == stat.S_IFLNK:
        return "link"
    raise SourceError(f"{shown(name)} is a hard link, a device or something else that no skill may hold")


def member_path(name: str) -> PurePosixPath:
    """Returns the path of a member. Where extractors differ, in `..`, `//` and the rest, SourceError is raised."""
    parts = name.removeprefix("./").removesuffix("/").split("/")
    for part in parts:
        fault = name_fault(part) or ("has a control character" if _has_control(part) else "")
        if fault:
            raise SourceError(f"the name {shown(name)} is refused: a part of it {fault}")
    return PurePosixPath(*parts)


def _has_control(part: str) -> bool:
    return any(unicodedata.category(char) == "Cc" for char in part)
