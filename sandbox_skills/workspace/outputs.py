"""Where collected files go on the host: memory, or a directory that the box cannot steer.

A file that cannot have its name there is left out and told: the others, and what the program did, are kept.
"""

from __future__ import annotations

import errno
import os
import re
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Self

from sandbox_skills.engines.base import whole_of
from sandbox_skills.errors import OutputError
from sandbox_skills.workspace.host_file import DIRECTORY, InTheWayError, PartialFile
from sandbox_skills.workspace.paths import name_fault, shown

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from pathlib import Path
    from types import TracebackType

    from sandbox_skills.engines.base import FileSink, Sandbox
    from sandbox_skills.spec import Collection, CollectLimits, FoundFile
    from sandbox_skills.telemetry import Redaction

UNFIT_NAME = "name"
"""Why a file is left out whose name is none by our path rule or here: the runner's word for one it cannot tell."""

EXISTS = "exists"
"""Why a file is left out whose place on the host another one has, which is to stay."""

_NAME_FAULTS = frozenset({errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ})
"""How a file system of the host refuses a name that ours would have, such as `a:b` on FAT."""

NAME_HIDDEN = "secret"
"""Why a file is left out whose name nobody may see."""

GIT = "git"
"""Why a file is left out that would lie in a `.git`: what is there decides which programs the next `git` starts."""


@dataclass(frozen=True, slots=True)
class CollectedFile:
    """One output, `name` its path in the workspace. Its bytes are `data`, or lie in the host file `saved`, as asked.

    `executable` is what the box called it; on the host no file is made so.
    """

    name: str
    size: int
    truncated: bool
    data: bytes | None = None
    saved: Path | None = None
    executable: bool = False

    @property
    def path(self) -> PurePosixPath:
        """The name as a path."""
        return PurePosixPath(self.name)

    def as_dict(self) -> dict[str, object]:
        """Returns what a file is, for JSON; never its bytes."""
        return {
            "path": self.name,
            "size": self.size,
            "truncated": self.truncated,
            "executable": self.executable,
            "saved": str(self.saved) if self.saved is not None else None,
        }


class MemorySink:
    """Keeps files in memory; bounded by the limits of the collection."""

    blocking = False

    def __init__(self) -> None:
        self.files: list[CollectedFile] = []
        self._current: FoundFile | None = None
        self._pieces: list[bytes] = []

    def begin(self, file: FoundFile) -> None:
        self._current = file
        self._pieces = []

    def write(self, data: bytes) -> None:
        self._pieces.append(data)

    def end(self) -> None:
        file = self._current
        assert file is not None
        self.files.append(_collected_file(file, data=b"".join(self._pieces)))

    def whole(self, file: FoundFile, data: bytes) -> None:
        self.files.append(_collected_file(file, data=data))


class DirectorySink:
    """Writes files below a host directory at their paths in the workspace.

    `left` has the files that were not written, each with the reason: something is in the way, or a file is there
    that is to stay because `overwrite` is False, or the place is one of Git's. The directory is made when the first
    file comes. Its own path is the caller's word and may lead through links; below it none is followed. Raises
    OutputError where the host cannot keep a file. Leaving the context removes the part of a file that never became
    whole; files that did stay.
    """

    blocking = True

    def __init__(self, directory: Path, *, overwrite: bool = True) -> None:
        self.files: list[CollectedFile] = []
        self.left: dict[str, str] = {}
        self._directory = directory
        self._overwrite = overwrite
        self._root: int | None = None
        self._current: tuple[FoundFile, PartialFile] | None = None

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
        # No file system of the host need tell capitals from others.
        if ".git" in file.name.lower().split("/"):
            self.left[file.name] = GIT
            return
        with self._saving(file):
            self._current = file, PartialFile(self._opened(), file.path)

    def write(self, data: bytes) -> None:
        if self._current is not None:
            file, partial = self._current
            with self._saving(file):
                partial.write(data)

    def end(self) -> None:
        if self._current is None:
            return
        file, partial = self._current
        self._current = None
        with self._saving(file):
            if partial.commit(overwrite=self._overwrite):
                self.files.append(_collected_file(file, saved=self._directory / file.name))
            else:
                self.left[file.name] = EXISTS

    @contextmanager
    def _saving(self, file: FoundFile) -> Generator[None]:
        try:
            yield
        except InTheWayError as error:
            self.left[file.name] = f"{error.kind} in the way: {self._directory / error.path}"
        except OSError as error:
            if error.errno in _NAME_FAULTS:
                self.left[file.name] = UNFIT_NAME
                return
            raise OutputError(
                f"output {shown(file.name)} cannot be saved: {error.strerror}",
                hint="choose another output directory, or make room in this one",
            ) from error

    def _opened(self) -> int:
        if self._root is None:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._root = os.open(self._directory, DIRECTORY)
        return self._root


def _collected_file(
    file: FoundFile, *, data: bytes | None = None, saved: Path | None = None
) -> CollectedFile:
    executable = bool(file.mode & 0o100)
    return CollectedFile(file.name, file.size, file.truncated, data, saved, executable)


def told_files(
    files: Sequence[CollectedFile], collection: Collection, redaction: Redaction
) -> tuple[tuple[CollectedFile, ...], Collection]:
    """Returns what may be told of a collection: none whose name holds a secret; its bytes stay where they are."""
    if not redaction:
        return tuple(files), collection
    told = tuple(file for file in files if not redaction.holds(file.name))
    left = {file.name: NAME_HIDDEN for file in files if file not in told}
    skipped = {redaction.text(path): why for path, why in {**collection.skipped, **left}.items()}
    return told, replace(collection, skipped=skipped)


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


_USUAL = re.compile(r"\w[\w.-]{0,99}(?:/\w[\w.-]{0,99}){0,9}", re.ASCII)
"""Paths in which nothing can be wrong, as nearly all are: the rule takes ten times as long."""


class FitNames:
    """Passes files on whose names our path rule allows; `skipped` has the others."""

    def __init__(self, sink: FileSink) -> None:
        self.skipped: dict[str, str] = {}
        self.blocking = sink.blocking
        self._sink = sink
        self._whole = whole_of(sink)
        self._passing = False

    def begin(self, file: FoundFile) -> None:
        self._passing = self._fits(file)
        if self._passing:
            self._sink.begin(file)

    def write(self, data: bytes) -> None:
        if self._passing:
            self._sink.write(data)

    def end(self) -> None:
        if self._passing:
            self._sink.end()

    def whole(self, file: FoundFile, data: bytes) -> None:
        if self._whole is None:
            self.begin(file)
            if data:
                self.write(data)
            self.end()
        elif self._fits(file):
            self._whole(file, data)

    def _fits(self, file: FoundFile) -> bool:
        """Returns whether a file's name is one on the host; notes that it is none."""
        name = file.name
        if _USUAL.fullmatch(name) or not any(map(name_fault, name.split("/"))):
            return True
        self.skipped[name] = UNFIT_NAME
        return False


async def collect_outputs(
    sandbox: Sandbox,
    patterns: Sequence[str],
    limits: CollectLimits,
    out_dir: Path | None,
    *,
    overwrite: bool = True,
) -> tuple[tuple[CollectedFile, ...], Collection]:
    """Collects into `out_dir`, or into memory where it is None; `overwrite` is whether files there are replaced.

    What cannot have its name on the host is told as skipped. Raises OutputError where the host cannot keep a file, for
    want of room or permission; the sandbox lives on.
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
    cut = {file.name for file in collection.files if file.truncated}
    files = tuple(replace(file, truncated=True) if file.name in cut else file for file in sink.files)
    return files, replace(collection, skipped={**collection.skipped, **fit.skipped})
