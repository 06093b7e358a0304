"""Host files for a run: found and measured before anything starts, then put into the box."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from contextlib import aclosing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import anyio.to_thread

from sandbox_skills.errors import InputError, PathEscapeError
from sandbox_skills.spec import MIB, WORKSPACE
from sandbox_skills.workspace.choices import MAX_INPUT_FILES, InputLimits
from sandbox_skills.workspace.input_refs import target_path
from sandbox_skills.workspace.media_types import HEAD_BYTES, media_type
from sandbox_skills.workspace.paths import box_path, open_inside, open_root, safe_file_name, shown

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Iterator, Sequence

    from sandbox_skills.engines.base import Sandbox

CHUNK = MIB
"""Bytes read at once: most inputs are smaller, and cost one visit to a thread."""

PUTS_AT_ONCE = 8
"""Files on their way together: hides the way there and back, and a box may open 1,024."""


@dataclass(frozen=True, slots=True)
class Input:
    """A host file or folder, and where it goes in the workspace: default `work/inputs/<its name>`."""

    source: Path
    to: str = ""


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One file to put: opened below `root` without following a link, `size` bytes read from `start` on."""

    root: Path
    relative: PurePosixPath
    target: PurePosixPath
    size: int
    mode: int
    start: int = 0


@dataclass(frozen=True, slots=True)
class StagedInput:
    """One input as a run finds it: `name` is its path in the workspace, `source` what the caller named.

    `version` is an artifact's. `mime_type` is that of one file, by its name and content; empty for a folder.
    """

    name: str
    source: str
    files: int = 1
    size_bytes: int = 0
    mime_type: str = ""
    version: int | None = None

    def as_dict(self) -> dict[str, object]:
        """Returns the one spelling of an input that was staged, for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class PlannedInputs:
    """Every file of some inputs; `notes` say what of their folders is left out, `staged` is one row per input."""

    files: tuple[PlannedFile, ...] = ()
    notes: tuple[str, ...] = ()
    staged: tuple[StagedInput, ...] = ()


def plan_inputs(inputs: Sequence[Input], *, max_bytes: int) -> PlannedInputs:
    """Returns every file of the inputs; raises InputError and PathEscapeError before anything is started.

    A source that is a link is followed: the caller named it. Of a folder, links, special files and folders
    without files are left out.
    """
    plan = FilePlan(InputLimits(input_bytes=max_bytes, total_bytes=max_bytes, files=MAX_INPUT_FILES))
    staged = [plan.add(one) for one in inputs]
    plan.check_nesting()
    return PlannedInputs(tuple(plan.files.values()), tuple(plan.notes), tuple(staged))


def target_of(one: Input) -> PurePosixPath:
    """Returns the box path of an input, as `input_refs.target_path` does."""
    return target_path(one.to, _own_name(one.source))


def _own_name(source: Path) -> str:
    # `.` and `..` are the names of folders that have others.
    name = source.name if source.name not in {"", ".."} else source.absolute().resolve().name
    return safe_file_name(name, default="input")


class Budget:
    """What inputs may still have; refuses as soon as they are too many."""

    def __init__(self, limits: InputLimits) -> None:
        self._limits = limits
        self._files = 0
        self._bytes = 0
        self._bytes_of_one = 0

    def next_input(self) -> None:
        """Begins another input."""
        self._bytes_of_one = 0

    def take(self, size: int, *, files: int = 1) -> None:
        """Counts files of the input that was begun; raises InputError where they are too many."""
        self._files += files
        self._bytes += size
        self._bytes_of_one += size
        limits = self._limits
        if self._bytes_of_one > limits.input_bytes < limits.total_bytes:
            raise InputError(
                f"an input has more than {limits.input_bytes / MIB:.0f} MiB",
                hint="give less, or raise inputs.max_input_bytes",
            )
        if self._files > limits.files or self._bytes > limits.total_bytes:
            raise InputError(
                f"the inputs have more than {limits.files} files or {limits.total_bytes / MIB:.0f} MiB",
                hint="give fewer files, or raise inputs.max_total_bytes and sandbox.workspace_bytes",
            )


class FilePlan:
    """The host files of a run's inputs as they are found, and the targets that are taken."""

    def __init__(self, limits: InputLimits) -> None:
        self.files: dict[PurePosixPath, PlannedFile] = {}
        self.notes: list[str] = []
        self.budget = Budget(limits)
        self._targets: set[PurePosixPath] = set()

    def add(self, one: Input) -> StagedInput:
        """Adds what the caller's own word names, a link followed."""
        target = target_of(one)
        with _readable(str(one.source)):
            source = one.source.resolve(strict=True)
            root = source if source.is_dir() else source.parent
            return self._find(root, source, target, str(one.source))

    def add_below(
        self, root: Path, relative: PurePosixPath, target: PurePosixPath, source: str
    ) -> StagedInput:
        """Adds what lies at `relative` below `root`, which no link on the way leads elsewhere.

        Raises PathEscapeError where one does, InputError where nothing is there.
        """
        with _readable(source), open_root(root) as root_fd:
            os.close(open_inside(root_fd, relative, os.O_PATH))
            return self._find(root, root / relative, target, source)

    def claim(self, target: PurePosixPath) -> None:
        """Takes a target; raises InputError where another input has it."""
        if target in self._targets:
            raise InputError(f"two inputs are to be {target}", hint="give one of them another target")
        self._targets.add(target)

    def check_nesting(self) -> None:
        """Raises InputError where one file's target is a directory of another's."""
        for path in {parent for target in self._targets for parent in target.parents}:
            if path in self._targets:
                raise InputError(f"one input is to be the file {path}, another is to lie below it")

    def _find(self, root: Path, source: Path, target: PurePosixPath, said: str) -> StagedInput:
        self.budget.next_input()
        before = len(self.files)
        info = source.lstat()
        if stat.S_ISREG(info.st_mode):
            self._take(root, source, target, info)
        elif stat.S_ISDIR(info.st_mode):
            self._find_below(root, source, target)
        elif stat.S_ISLNK(info.st_mode):
            raise PathEscapeError(f"input {shown(said)} is a link", hint="name what it leads to")
        else:
            raise InputError(f"input {shown(str(source))} is neither a file nor a folder")
        new = list(self.files.values())[before:]
        return StagedInput(
            name=str(target.relative_to(WORKSPACE)),
            source=said,
            files=len(new),
            size_bytes=sum(file.size for file in new),
            mime_type=_media_type(new[0]) if stat.S_ISREG(info.st_mode) else "",
        )

    def _find_below(self, root: Path, source: Path, target: PurePosixPath) -> None:
        before, left = len(self.files), 0
        for entry in _entries(source):
            if entry.is_file(follow_symlinks=False):
                relative = os.path.relpath(entry.path, source)
                self._take(root, Path(entry.path), target / relative, entry.stat(follow_symlinks=False))
            else:
                left += 1
        if left:
            self.notes.append(f"{left} links and special files of input {shown(str(source))} were left out")
        if len(self.files) == before:
            self.notes.append(f"input {shown(str(source))} has no files")

    def _take(self, root: Path, source: Path, target: PurePosixPath, info: os.stat_result) -> None:
        box_path(str(target))  # every name of a folder keeps the path rule
        if not os.access(source, os.R_OK, effective_ids=True):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(source))
        self.claim(target)
        self.files[target] = PlannedFile(
            root, PurePosixPath(source.relative_to(root)), target, info.st_size, _mode(info)
        )
        self.budget.take(info.st_size)


def _mode(info: os.stat_result) -> int:
    """Returns what a file has in the box, where all else of its mode here means nothing."""
    return 0o755 if info.st_mode & 0o100 else 0o644


@contextmanager
def _readable(source: str) -> Generator[None]:
    try:
        yield
    except OSError as error:
        path = shown(str(error.filename or source))
        raise InputError(f"input {path} cannot be read: {error.strerror}") from error
    except (RuntimeError, ValueError) as error:  # a loop of links, a NUL
        raise InputError(f"input {shown(source)} cannot be read: {error}") from error


def _media_type(file: PlannedFile) -> str:
    return media_type(file.relative.name, _read(file, 0, HEAD_BYTES))


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Yields what is below a folder and is no folder, in the same order each time; raises OSError."""
    pending = [str(folder)]
    while pending:
        current = pending.pop()
        with os.scandir(current) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                pending.append(entry.path)
            else:
                yield entry


async def put_inputs(sandbox: Sandbox, files: Sequence[PlannedFile]) -> None:
    """Puts planned files into the box. Raises InputError for one that cannot be read any more.

    A file that changes meanwhile is put as it is read: at most its planned size. Raises PathEscapeError where
    a run has put a link in the way, WorkspaceFullError.
    """
    ahead = iter(files)
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(PUTS_AT_ONCE, len(files))):
                group.create_task(_put_each(sandbox, ahead))
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None


async def _put_each(sandbox: Sandbox, ahead: Iterator[PlannedFile]) -> None:
    for file in ahead:
        async with aclosing(planned_chunks(file)) as chunks:
            await sandbox.put(file.target, chunks, mode=file.mode)


async def planned_chunks(file: PlannedFile) -> AsyncGenerator[bytes]:
    """Yields the bytes of a planned file, at most its planned size; raises InputError where it cannot be read."""
    offset = 0
    while offset < file.size:
        data = await anyio.to_thread.run_sync(_read, file, offset)
        if not data:
            return
        offset += len(data)
        yield data


def _read(file: PlannedFile, offset: int, most: int = CHUNK) -> bytes:
    """Opens and closes the file each time: a descriptor that outlives this thread could be lost in a cancel."""
    try:
        with open_root(file.root) as root:
            descriptor = open_inside(root, file.relative, os.O_RDONLY)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise InputError(f"input {shown(str(file.relative))} is not a regular file any more")
            return os.pread(descriptor, min(most, file.size - offset), file.start + offset)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise InputError(f"cannot read input {shown(str(file.relative))}: {error.strerror}") from error
