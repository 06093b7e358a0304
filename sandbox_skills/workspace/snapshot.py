"""The files of a workspace as a tar on the host, and back into another box.

Only regular files of `work/` and `out/` are kept: links, special files and private copies of skills are not. What a
tar holds is believed no more than what a box says, since it was made of that.
"""

from __future__ import annotations

import os
import secrets
import stat
import tarfile
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, Self

import anyio.to_thread

from sandbox_skills.directories import make_private
from sandbox_skills.errors import OutputError, PathEscapeError, SnapshotError
from sandbox_skills.spec import KIB, MIB, WORKSPACE, CollectLimits
from sandbox_skills.workspace.inputs import PlannedFile, put_inputs
from sandbox_skills.workspace.layout import OUTPUT_DIR, WORK_DIR
from sandbox_skills.workspace.outputs import FitNames
from sandbox_skills.workspace.paths import open_inside, open_root, relative_inside, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path, PurePosixPath
    from types import TracebackType

    from sandbox_skills.engines.base import Sandbox
    from sandbox_skills.spec import FoundFile

ROOTS = (WORK_DIR.name, OUTPUT_DIR.name)
"""Folders of the workspace that a snapshot has."""

_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_HEADER_BYTES = 6 * KIB
"""Most that tar adds to one file: a header, and another with a path that is as long as paths can be."""


@dataclass(frozen=True, slots=True)
class SnapshotLimits:
    """Ceilings of a snapshot, taken or restored: as much as a usual workspace holds."""

    files: int = 16 * KIB
    bytes: int = 256 * MIB


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files of one tenant's workspace in the tar at `path`. `skipped` are files that it lacks, and why."""

    path: Path
    tenant: str
    files: int
    bytes: int
    skipped: Mapping[str, str] = field(default_factory=dict[str, str])

    def as_dict(self) -> dict[str, object]:
        """Returns what a snapshot is, for JSON."""
        return {
            "path": str(self.path),
            "files": self.files,
            "bytes": self.bytes,
            "skipped": dict(self.skipped),
        }


async def take_snapshot(
    sandbox: Sandbox, path: Path, *, tenant: str, limits: SnapshotLimits | None = None
) -> Snapshot:
    """Writes the files of a workspace to `path`, mode 0600, which appears whole or not at all.

    What is over the limits is left out and told. Raises OutputError where the host cannot keep the file.
    """
    limits = limits or SnapshotLimits()
    collect = CollectLimits(files=limits.files, file_bytes=limits.bytes, total_bytes=limits.bytes)
    try:
        with _TarFile(path) as tar:
            fit = FitNames(tar)
            found = await sandbox.collect([f"{root}/**" for root in ROOTS], collect, fit)
            tar.commit()
    except OSError as error:
        raise OutputError(f"snapshot {shown(str(path))} cannot be saved: {error.strerror}") from error
    cut = dict.fromkeys(map(str, tar.cut), "collected_bytes")
    return Snapshot(path, tenant, tar.files, tar.bytes, {**found.skipped, **fit.skipped, **cut})


class _TarFile:
    """A FileSink that writes a tar under another name until it is whole. A file that was cut is taken out again."""

    def __init__(self, path: Path) -> None:
        self.files = 0
        self.bytes = 0
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
        self._file.write(_header(file, 0))
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
        self._file.write(_header(file, size))
        self._file.seek(end)
        self._file.write(b"\0" * (-size % tarfile.BLOCKSIZE))
        self.files += 1
        self.bytes += size

    def commit(self) -> None:
        """Ends the tar and gives it its name."""
        self._file.write(b"\0" * (2 * tarfile.BLOCKSIZE))
        self._file.flush()
        self._partial.replace(self._path)


def _header(file: FoundFile, size: int) -> bytes:
    info = tarfile.TarInfo(str(file.path))
    info.size = size
    info.mode = file.mode & 0o777
    return info.tobuf(format=tarfile.PAX_FORMAT)


async def restore_snapshot(
    sandbox: Sandbox, snapshot: Snapshot, *, tenant: str, limits: SnapshotLimits | None = None
) -> None:
    """Puts the files of a snapshot into the workspace; the tar is checked whole before the first one is put.

    Raises SnapshotError, and what `put_inputs` raises.
    """
    if snapshot.tenant != tenant:
        raise SnapshotError("there is no such snapshot")  # whose it is is nobody's business
    files = await anyio.to_thread.run_sync(plan_restore, snapshot.path, limits or SnapshotLimits())
    await put_inputs(sandbox, files)


def plan_restore(path: Path, limits: SnapshotLimits) -> tuple[PlannedFile, ...]:
    """Returns the files of a tar, with the places of their bytes in it; raises SnapshotError for one that is none."""
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
            return tuple(_members(file, path, info.st_size, limits))
    except PathEscapeError as error:
        raise SnapshotError(f"snapshot {shown(str(path))}: {error.message}") from error
    except (OSError, tarfile.TarError, ValueError, OverflowError, RecursionError, EOFError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is no tar"
        raise SnapshotError(f"snapshot {shown(str(path))} cannot be read: {reason}") from error


def _members(file: BinaryIO, path: Path, size: int, limits: SnapshotLimits) -> Iterator[PlannedFile]:
    targets: set[PurePosixPath] = set()
    left = limits.bytes
    with tarfile.open(fileobj=file, mode="r:", errorlevel=2) as tar:
        while (member := tar.next()) is not None:
            target = _target(member)
            left -= member.size
            if left < 0 or len(targets) >= limits.files:
                raise SnapshotError(f"a snapshot has at most {limits.files} files and {limits.bytes} bytes")
            if target in targets or member.offset_data + member.size > size:
                raise SnapshotError(f"snapshot entry {shown(member.name)} is there twice, or is cut")
            targets.add(target)
            yield PlannedFile(
                path.parent, relative_inside(path.name), target, member.size, member.mode, member.offset_data
            )
    if any(parent in targets for target in targets for parent in target.parents):
        raise SnapshotError("a snapshot has an entry below a file")


def _target(member: tarfile.TarInfo) -> PurePosixPath:
    if member.type not in {tarfile.REGTYPE, tarfile.AREGTYPE} or member.issparse() or member.size < 0:
        raise SnapshotError(f"snapshot entry {shown(member.name)} is no regular file")
    relative = relative_inside(member.name)
    if len(relative.parts) < 2 or relative.parts[0] not in ROOTS:  # noqa: PLR2004 - a folder and what is in it
        raise SnapshotError(f"snapshot entry {shown(member.name)} lies in neither of {', '.join(ROOTS)}")
    return WORKSPACE / relative
