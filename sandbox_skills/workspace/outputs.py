"""Where collected files go on the host: memory, or a directory that the box cannot steer.

Below that directory nothing is opened through a link, and a file appears under its name only when it is whole.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Self

from sandbox_skills.errors import OutputError
from sandbox_skills.workspace.paths import name_fault, open_inside, shown

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from pathlib import Path
    from types import TracebackType

    from sandbox_skills.engines.base import FileSink, Sandbox
    from sandbox_skills.spec import Collection, CollectLimits, FoundFile

UNFIT_NAME = "name"
"""Why a file is left out whose name is no name by our path rule: the runner's word for one it cannot tell."""

EXISTS = "exists"
"""Why a file is left out whose place on the host another one has, which is to stay."""

_DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC

_COMPARED = 1 << 20
"""Bytes of two files that are compared at once: most outputs are smaller."""


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
    """Writes files below a host directory at their paths in the workspace.

    A file that is there is replaced, or stays where `overwrite` is False: `left` has those that were not written
    for it. The directory is made when the first file comes. Its own path is the caller's word and may lead through
    links; a link below it raises PathEscapeError. Raises OutputError where the host cannot keep a file. Leaving
    the context removes the part of a file that never became whole; files that did stay.
    """

    def __init__(self, directory: Path, *, overwrite: bool = True) -> None:
        self.files: list[CollectedFile] = []
        self.left: dict[str, str] = {}
        self._directory = directory
        self._overwrite = overwrite
        self._root: int | None = None
        self._current: tuple[FoundFile, _PartialFile] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._current is not None:
            self._current[1].abandon()
            self._current = None
        if self._root is not None:
            os.close(self._root)
            self._root = None

    def begin(self, file: FoundFile) -> None:
        with _saving(file.path):
            self._current = file, _PartialFile(self._opened(), file.path, executable=bool(file.mode & 0o100))

    def write(self, data: bytes) -> None:
        assert self._current is not None
        file, partial = self._current
        with _saving(file.path):
            partial.write(data)

    def end(self) -> None:
        assert self._current is not None
        file, partial = self._current
        self._current = None
        with _saving(file.path):
            if not partial.commit(overwrite=self._overwrite):
                self.left[str(file.path)] = EXISTS
                return
        self.files.append(
            CollectedFile(file.path, file.size, file.truncated, saved=self._directory / file.path)
        )

    def _opened(self) -> int:
        if self._root is None:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._root = os.open(self._directory, _DIRECTORY)
        return self._root


class _PartialFile:
    """A file on its way in: it has another name in its directory until it is whole.

    The directory stays open meanwhile, so it does not matter what its path leads to by then.
    """

    def __init__(self, root: int, path: PurePosixPath, *, executable: bool) -> None:
        self._name = path.name
        self._partial = f".{secrets.token_hex(8)}.partial"
        self._parent = _open_made(root, path.parent)
        try:
            # The box's executable bit is kept; all else is the business of the host's umask.
            mode = 0o777 if executable else 0o666
            self._file = os.open(self._partial, _NEW_FILE, mode, dir_fd=self._parent)
        except OSError:
            os.close(self._parent)
            raise

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]

    def commit(self, *, overwrite: bool) -> bool:
        """Gives the file its name, in place of a file or link that has it; a failure leaves no part behind.

        Returns False, having changed nothing, where something else has the name and is not to be overwritten.
        """
        if not overwrite and self._is_taken():
            self.abandon()
            return False
        try:
            os.replace(self._partial, self._name, src_dir_fd=self._parent, dst_dir_fd=self._parent)
        except OSError:
            self.abandon()
            raise
        self._close()
        return True

    def _is_taken(self) -> bool:
        """Tells whether something has the name that is no file with the very same bytes."""
        try:
            there = os.open(self._name, _OLD_FILE, dir_fd=self._parent)
        except FileNotFoundError:
            return False
        except OSError:  # a link, or nothing of ours to read
            return True
        try:
            return not _same_bytes(there, self._file)
        finally:
            os.close(there)

    def abandon(self) -> None:
        with suppress(OSError):  # gone already, or out of reach with its disk
            os.unlink(self._partial, dir_fd=self._parent)
        self._close()

    def _close(self) -> None:
        os.close(self._file)
        os.close(self._parent)


def _same_bytes(one: int, other: int) -> bool:
    """Tells whether two open files are regular and have the same content."""
    status, size = os.fstat(one), os.fstat(other).st_size
    if not stat.S_ISREG(status.st_mode) or status.st_size != size:
        return False
    pieces = range(0, size, _COMPARED)
    return all(os.pread(one, _COMPARED, at) == os.pread(other, _COMPARED, at) for at in pieces)


def _open_made(root: int, path: PurePosixPath) -> int:
    """Opens a directory below `root`, making what is missing; no link is followed."""
    with ExitStack() as stack:
        at = root
        for part in path.parts:
            with suppress(FileExistsError):
                os.mkdir(part, dir_fd=at)
            at = open_inside(at, PurePosixPath(part), _DIRECTORY)
            stack.callback(os.close, at)
        return os.dup(at)


@contextmanager
def _saving(path: PurePosixPath) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"output {shown(str(path))} cannot be saved: {error.strerror}",
            hint="choose another output directory, or make room in this one",
        ) from error


def check_out_dir(directory: Path) -> None:
    """Raises OutputError where files could not be saved below `directory` as things stand; makes nothing."""
    directory = directory.absolute()
    existing = next(path for path in (directory, *directory.parents) if os.path.lexists(path))
    if not existing.is_dir():
        raise OutputError(
            f"{shown(str(existing))} is not a directory", hint="choose another output directory"
        )
    if not os.access(existing, os.W_OK | os.X_OK, effective_ids=True):
        raise OutputError(f"{shown(str(existing))} cannot be written", hint="choose another output directory")


class FitNames:
    """Passes files on whose names our path rule allows; `skipped` has the others."""

    def __init__(self, sink: FileSink) -> None:
        self.skipped: dict[str, str] = {}
        self._sink = sink
        self._passing = False

    def begin(self, file: FoundFile) -> None:
        self._passing = not any(name_fault(part) for part in file.path.parts)
        if self._passing:
            self._sink.begin(file)
        else:
            self.skipped[str(file.path)] = UNFIT_NAME

    def write(self, data: bytes) -> None:
        if self._passing:
            self._sink.write(data)

    def end(self) -> None:
        if self._passing:
            self._sink.end()


async def collect_outputs(
    sandbox: Sandbox,
    patterns: Sequence[str],
    limits: CollectLimits,
    out_dir: Path | None,
    *,
    overwrite: bool = True,
) -> tuple[tuple[CollectedFile, ...], Collection]:
    """Collects into `out_dir`, or into memory where it is None; `overwrite` is whether files there are replaced.

    Raises OutputError and PathEscapeError where a file cannot be saved; the sandbox lives on.
    """
    if out_dir is None:
        memory = MemorySink()
        return await _collected(sandbox, patterns, limits, memory)
    with DirectorySink(out_dir, overwrite=overwrite) as directory:
        files, collection = await _collected(sandbox, patterns, limits, directory)
    return files, replace(collection, skipped={**collection.skipped, **directory.left})


async def _collected(
    sandbox: Sandbox, patterns: Sequence[str], limits: CollectLimits, sink: MemorySink | DirectorySink
) -> tuple[tuple[CollectedFile, ...], Collection]:
    fit = FitNames(sink)
    collection = await sandbox.collect(patterns, limits, fit)
    # A file that shrinks while it is read is known to be cut only after it was begun.
    cut = {file.path for file in collection.files if file.truncated}
    files = tuple(replace(file, truncated=file.path in cut) for file in sink.files)
    return files, replace(collection, skipped={**collection.skipped, **fit.skipped})
