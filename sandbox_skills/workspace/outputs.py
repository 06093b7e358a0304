"""Where collected files go on the host: memory, or a directory that the box cannot steer.

A name from the box is checked before it gets here; below, nothing is opened through a link, and a file appears
under its name only when it is whole.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox_skills.errors import PathEscapeError, RequestError
from sandbox_skills.workspace.paths import open_inside, open_root, shown

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path, PurePosixPath

    from sandbox_skills.engines.base import Sandbox
    from sandbox_skills.spec import Collection, CollectLimits, FoundFile


@dataclass(frozen=True, slots=True)
class CollectedFile:
    """One output. Its bytes are `data`, or lie in the host file `saved`, as the caller asked."""

    path: PurePosixPath
    size: int
    truncated: bool
    data: bytes | None = None
    saved: Path | None = None

    def as_dict(self) -> dict[str, object]:
        """Returns what a file is, for JSON; never its bytes."""
        saved = str(self.saved) if self.saved is not None else None
        return {"path": str(self.path), "size": self.size, "truncated": self.truncated, "saved": saved}


class MemorySink:
    """Keeps files in memory; bounded by the limits of the collection."""

    def __init__(self) -> None:
        self.files: list[CollectedFile] = []
        self._current: FoundFile | None = None
        self._data = bytearray()

    def begin(self, file: FoundFile) -> None:
        self._current = file
        self._data = bytearray()

    def write(self, data: bytes) -> None:
        self._data += data

    def end(self) -> None:
        file = self._current
        assert file is not None
        self.files.append(CollectedFile(file.path, file.size, file.truncated, data=bytes(self._data)))


class DirectorySink:
    """Writes files below a host directory at their paths in the workspace, replacing what is there.

    The directory is made when the first file comes. A link on the way raises PathEscapeError. `abandon` removes the
    part of a file that never became whole.
    """

    def __init__(self, directory: Path) -> None:
        self.files: list[CollectedFile] = []
        self._directory = directory
        self._current: FoundFile | None = None
        self._partial: tuple[Path, int] | None = None

    def begin(self, file: FoundFile) -> None:
        self._current = file
        self._directory.mkdir(parents=True, exist_ok=True)
        with open_root(self._directory) as root:
            parent = _made(root, file.path.parent)
            try:
                name = f".{secrets.token_hex(8)}.partial"
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                descriptor = os.open(name, flags, 0o600, dir_fd=parent)
            finally:
                os.close(parent)
        self._partial = (self._directory / file.path.parent / name, descriptor)

    def write(self, data: bytes) -> None:
        assert self._partial is not None
        view = memoryview(data)
        while view:
            view = view[os.write(self._partial[1], view) :]

    def end(self) -> None:
        file, partial = self._current, self._partial
        assert file is not None
        assert partial is not None
        path, descriptor = partial
        # The box's executable bit is kept, its other bits are the host's business.
        os.fchmod(descriptor, 0o755 if file.mode & 0o100 else 0o644)
        os.close(descriptor)
        self._partial = None
        target = self._directory / file.path
        with open_root(self._directory) as root:
            parent = open_inside(root, file.path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                _replace(parent, path.name, target.name)
            finally:
                os.close(parent)
        self.files.append(CollectedFile(file.path, file.size, file.truncated, saved=target))

    def abandon(self) -> None:
        """Removes a file that is not whole; nothing where there is none."""
        if self._partial is not None:
            path, descriptor = self._partial
            self._partial = None
            os.close(descriptor)
            path.unlink(missing_ok=True)


async def collect_outputs(
    sandbox: Sandbox, patterns: Sequence[str], limits: CollectLimits, out_dir: Path | None
) -> tuple[tuple[CollectedFile, ...], Collection]:
    """Collects into `out_dir`, or into memory where it is None."""
    if out_dir is None:
        memory = MemorySink()
        collection = await sandbox.collect(patterns, limits, memory)
        return tuple(memory.files), collection
    directory = DirectorySink(out_dir)
    try:
        collection = await sandbox.collect(patterns, limits, directory)
    finally:
        directory.abandon()
    return tuple(directory.files), collection


def _made(root: int, path: PurePosixPath) -> int:
    """Opens a directory below `root`, making what is missing; no link is followed."""
    descriptor = os.dup(root)
    for part in path.parts:
        try:
            os.mkdir(part, 0o755, dir_fd=descriptor)
        except FileExistsError:
            pass
        except OSError:
            os.close(descriptor)
            raise
        try:
            below = os.open(
                part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor
            )
        except OSError as error:
            raise PathEscapeError(
                f"{shown(str(path))} goes through a link or a file of the output directory"
            ) from error
        finally:
            os.close(descriptor)
        descriptor = below
    return descriptor


def _replace(parent: int, partial: str, name: str) -> None:
    try:
        os.replace(partial, name, src_dir_fd=parent, dst_dir_fd=parent)
    except IsADirectoryError as error:
        os.unlink(partial, dir_fd=parent)
        raise RequestError(
            f"output {shown(name)} would replace a directory", hint="choose another --out-dir"
        ) from error
