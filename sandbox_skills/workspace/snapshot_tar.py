"""The tar of a snapshot, written as a box sends its files, and read as what a stranger may have written."""

from __future__ import annotations

import os
import secrets
import stat
import tarfile
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Self

from sandbox_skills.directories import make_private
from sandbox_skills.errors import PathEscapeError, SnapshotError
from sandbox_skills.spec import KIB, MIB, WORKSPACE
from sandbox_skills.workspace.inputs import PlannedFile
from sandbox_skills.workspace.paths import open_inside, open_root, relative_inside, shown
from sandbox_skills.workspace.snapshot_entries import Folder, Link, Places, entry_path, stays

if TYPE_CHECKING:
    from pathlib import Path, PurePosixPath
    from types import TracebackType

    from sandbox_skills.spec import FoundFile
    from sandbox_skills.workspace.choices import SnapshotLimits
    from sandbox_skills.workspace.snapshot_entries import Entry

_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_HEADER_BYTES = 12 * KIB
"""Most that tar adds to one entry: a header, and another with a path and a target that are as long as they can be."""


class TarWriter:
    """A FileSink that writes a tar under another name until it is whole. A file that was cut is taken out again."""

    blocking = True

    def __init__(self, path: Path) -> None:
        self.places = Places()
        self.files = 0
        self.bytes = 0
        self.size = 0
        self.cut: list[PurePosixPath] = []
        self._path = path
        self._partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        self._file: BinaryIO
        self._current: tuple[FoundFile, int, int] | None = None

    def __enter__(self) -> Self:
        make_private(self._partial.parent)
        self._file = os.fdopen(os.open(self._partial, _NEW, 0o600), "wb")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):  # what could not be flushed was told before
            self._file.close()
        self._partial.unlink(missing_ok=True)

    def begin(self, file: FoundFile) -> None:
        start = self._file.tell()
        self._file.write(_file_header(file, 0))
        self._current = file, start, self._file.tell()

    def write(self, data: bytes) -> None:
        self._file.write(data)

    def end(self) -> None:
        assert self._current is not None
        file, start, data_start = self._current
        end = self._file.tell()
        if file.truncated:
            self._file.seek(start)
            self._file.truncate()
            self.cut.append(file.path)
            return
        # The size is known only now: a file may shrink while it is read.
        size = end - data_start
        self._file.seek(start)
        self._file.write(_file_header(file, size))
        self._file.seek(end)
        self._file.write(b"\0" * (-size % tarfile.BLOCKSIZE))
        self.places.take(file.path)
        self.files += 1
        self.bytes += size

    def add(self, entry: Entry) -> bool:
        """Adds a folder or link; returns False where something else was found in its place."""
        if not self.places.take(entry.path, folder=isinstance(entry, Folder)):
            return False
        info = tarfile.TarInfo(str(entry.path))
        match entry:
            case Folder(mode=mode):
                info.type, info.mode = tarfile.DIRTYPE, mode
            case Link(target=target):
                info.type, info.mode, info.linkname = tarfile.SYMTYPE, 0o777, target
        self._file.write(info.tobuf(format=tarfile.PAX_FORMAT))
        return True

    def commit(self) -> None:
        """Ends the tar and gives it its name."""
        self._file.write(b"\0" * (2 * tarfile.BLOCKSIZE))
        self._file.flush()
        self.size = self._file.tell()
        self._partial.replace(self._path)


def _file_header(file: FoundFile, size: int) -> bytes:
    info = tarfile.TarInfo(str(file.path))
    info.size = size
    info.mode = file.mode & 0o777
    return info.tobuf(format=tarfile.PAX_FORMAT)


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """What a snapshot puts into a workspace: files with the places of their bytes in the tar, folders, links."""

    files: tuple[PlannedFile, ...]
    folders: tuple[Folder, ...]
    links: tuple[Link, ...]


def plan_restore(path: Path, limits: SnapshotLimits) -> RestorePlan:
    """Returns what the tar holds; raises SnapshotError for one that is none, or has what no snapshot may."""
    try:
        with open_root(path.parent) as root:
            descriptor = open_inside(root, relative_inside(path.name), os.O_RDONLY)
        with os.fdopen(descriptor, "rb") as file:
            info = os.fstat(file.fileno())
            if not stat.S_ISREG(info.st_mode):
                raise SnapshotError(f"snapshot {shown(str(path))} is not a file")
            if info.st_size > limits.bytes + limits.files * _HEADER_BYTES:
                raise SnapshotError(
                    f"snapshot {shown(str(path))} is larger than {limits.bytes / MIB:.0f} MiB"
                )
            return _TarReader(path, info.st_size, limits).read(file)
    except PathEscapeError as error:
        raise SnapshotError(f"snapshot {shown(str(path))}: {error.message}") from error
    except (OSError, tarfile.TarError, ValueError, OverflowError, RecursionError, EOFError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is no tar"
        raise SnapshotError(f"snapshot {shown(str(path))} cannot be read: {reason}") from error


class _TarReader:
    """One reading of a tar, which fails at the first entry that no snapshot has."""

    def __init__(self, path: Path, size: int, limits: SnapshotLimits) -> None:
        self._path = path
        self._name = relative_inside(path.name)
        self._size = size
        self._limits = limits
        self._left = limits.bytes
        self._places = Places()
        self._files: list[PlannedFile] = []
        self._folders: list[Folder] = []
        self._links: list[Link] = []

    def read(self, file: BinaryIO) -> RestorePlan:
        with tarfile.open(fileobj=file, mode="r:", errorlevel=2) as tar:
            while (member := tar.next()) is not None:
                self._take(member)
        return RestorePlan(tuple(self._files), tuple(self._folders), tuple(self._links))

    def _take(self, member: tarfile.TarInfo) -> None:
        path = entry_path(member.name)
        self._left -= member.size
        if self._left < 0 or len(self._places) >= self._limits.files:
            raise SnapshotError(
                f"a snapshot has at most {self._limits.files} files and {self._limits.bytes} bytes"
            )
        if not self._places.take(path, folder=member.isdir()):
            raise SnapshotError(f"snapshot entry {shown(member.name)} is there twice, or below a file")
        if member.type in {tarfile.REGTYPE, tarfile.AREGTYPE} and not member.issparse():
            self._take_file(member, path)
        elif member.type == tarfile.DIRTYPE and not member.size:
            self._folders.append(Folder(path, member.mode & 0o777))
        elif member.type == tarfile.SYMTYPE and not member.size:
            self._take_link(Link(path, member.linkname))
        else:
            raise SnapshotError(f"snapshot entry {shown(member.name)} is no file, folder or link")

    def _take_file(self, member: tarfile.TarInfo, path: PurePosixPath) -> None:
        if member.size < 0 or member.offset_data + member.size > self._size:
            raise SnapshotError(f"snapshot entry {shown(member.name)} is cut")
        self._files.append(
            PlannedFile(
                self._path.parent,
                self._name,
                WORKSPACE / path,
                member.size,
                member.mode & 0o777,
                member.offset_data,
            )
        )

    def _take_link(self, link: Link) -> None:
        if not stays(link):
            raise SnapshotError(f"snapshot entry {shown(str(link.path))} is a link that leads elsewhere")
        self._links.append(link)
