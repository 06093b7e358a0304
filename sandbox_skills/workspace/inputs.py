"""Host files for a run: found and measured before anything starts, then put into the box."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import anyio.to_thread

from sandbox_skills.errors import InputError
from sandbox_skills.spec import MIB, WORKSPACE
from sandbox_skills.workspace.layout import (
    DIRECTORIES,
    INPUTS_DIR,
    SKILLS_DIR,
    WORKSPACE_VARIABLES,
    expand_variable,
)
from sandbox_skills.workspace.paths import box_path, open_inside, open_root, safe_file_name, shown

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Sequence

    from sandbox_skills.engines.base import Sandbox

MAX_INPUT_FILES = 10_000
"""Files of all inputs together: below the inodes of a default workspace."""

CHUNK = MIB
"""Bytes read at once: most inputs are smaller, and cost one visit to a thread."""

PUTS_AT_ONCE = 8
"""Files on their way together: hides the way there and back, and a box may open 1,024."""

_INPUTS_LINK = WORKSPACE / "inputs"
"""What a skill calls its inputs: a link in its folder, so `inputs/x` means the same wherever it is said."""


@dataclass(frozen=True, slots=True)
class Input:
    """A host file or folder, and where it goes in the workspace: default `work/inputs/<its name>`."""

    source: Path
    to: str = ""


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One file to put: opened below `root` without following a link, read up to `size`."""

    root: Path
    relative: PurePosixPath
    target: PurePosixPath
    size: int
    mode: int


@dataclass(frozen=True, slots=True)
class PlannedInputs:
    """Every file of some inputs; `notes` say what of their folders is left out."""

    files: tuple[PlannedFile, ...] = ()
    notes: tuple[str, ...] = ()


def plan_inputs(inputs: Sequence[Input], *, max_bytes: int) -> PlannedInputs:
    """Returns every file of the inputs; raises InputError and PathEscapeError before anything is started.

    A source that is a link is followed: the caller named it. Of a folder, links, special files and folders
    without files are left out.
    """
    plan = _Plan(max_bytes)
    for one in inputs:
        plan.add(one)
    if len(inputs) > 1:
        plan.check_nesting()
    return PlannedInputs(tuple(plan.files.values()), tuple(plan.notes))


def target_of(one: Input) -> PurePosixPath:
    """Returns the box path of an input. Raises PathEscapeError, and InputError below the links to skills.

    Blank is `inputs/`. `inputs/x` is `work/inputs/x`. A trailing slash, or a directory that every workspace
    has, keeps the source's name.
    """
    text = expand_variable(one.to.strip(), WORKSPACE_VARIABLES)
    path = INPUTS_DIR if text in {"", ".", "./"} else box_path(text)
    if path.is_relative_to(_INPUTS_LINK):
        path = INPUTS_DIR / path.relative_to(_INPUTS_LINK)
    if path in {WORKSPACE, *DIRECTORIES} or text.endswith("/"):
        path /= _own_name(one.source)
    if path.is_relative_to(SKILLS_DIR):
        raise InputError(
            f"input target {shown(one.to)} lies below {SKILLS_DIR}, which is for skills",
            hint="leave it out, or name a path below work/",
        )
    return path


def _own_name(source: Path) -> str:
    # `.` and `..` are the names of folders that have others.
    name = source.name if source.name not in {"", ".."} else source.absolute().resolve().name
    return safe_file_name(name, default="input")


class _Plan:
    """The files of a run's inputs as they are found; refuses as soon as they are too many."""

    def __init__(self, max_bytes: int) -> None:
        self.files: dict[PurePosixPath, PlannedFile] = {}
        self.notes: list[str] = []
        self._max_bytes = max_bytes
        self._bytes = 0

    def add(self, one: Input) -> None:
        try:
            self._find(one.source.resolve(strict=True), target_of(one))
        except OSError as error:
            path = shown(str(error.filename or one.source))
            raise InputError(f"input {path} cannot be read: {error.strerror}") from error
        except (RuntimeError, ValueError) as error:  # a loop of links, a NUL
            raise InputError(f"input {shown(str(one.source))} cannot be read: {error}") from error

    def check_nesting(self) -> None:
        """Raises InputError where one file's target is a directory of another's."""
        for path in {parent for target in self.files for parent in target.parents}:
            if path in self.files:
                raise InputError(f"one input is to be the file {path}, another is to lie below it")

    def _find(self, source: Path, target: PurePosixPath) -> None:
        info = source.stat()
        if stat.S_ISREG(info.st_mode):
            self._take(source.parent, source.name, target, info)
        elif stat.S_ISDIR(info.st_mode):
            self._find_below(source, target)
        else:
            raise InputError(f"input {shown(str(source))} is neither a file nor a folder")

    def _find_below(self, source: Path, target: PurePosixPath) -> None:
        before, left = len(self.files), 0
        for entry in _entries(source):
            if entry.is_file(follow_symlinks=False):
                relative = os.path.relpath(entry.path, source)
                self._take(source, relative, target / relative, entry.stat(follow_symlinks=False))
            else:
                left += 1
        if left:
            self.notes.append(f"{left} links and special files of input {shown(str(source))} were left out")
        if len(self.files) == before:
            self.notes.append(f"input {shown(str(source))} has no files")

    def _take(self, root: Path, relative: str, target: PurePosixPath, info: os.stat_result) -> None:
        box_path(str(target))  # every name of a folder keeps the path rule
        if not os.access(root / relative, os.R_OK, effective_ids=True):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(root / relative))
        if target in self.files:
            raise InputError(f"two inputs are to be {target}", hint="give one of them another target")
        self.files[target] = PlannedFile(
            root, PurePosixPath(relative), target, info.st_size, info.st_mode & 0o777
        )
        self._bytes += info.st_size
        if len(self.files) > MAX_INPUT_FILES or self._bytes > self._max_bytes:
            raise InputError(
                f"the inputs have more than {MAX_INPUT_FILES} files or {self._max_bytes / MIB:.0f} MiB",
                hint="give fewer files, or raise sandbox.workspace_bytes",
            )


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
        async with aclosing(_chunks(file)) as chunks:
            await sandbox.put(file.target, chunks, mode=0o755 if file.mode & 0o100 else 0o644)


async def _chunks(file: PlannedFile) -> AsyncGenerator[bytes]:
    offset = 0
    while offset < file.size:
        data = await anyio.to_thread.run_sync(_read, file, offset)
        if not data:
            return
        offset += len(data)
        yield data


def _read(file: PlannedFile, offset: int) -> bytes:
    """Opens and closes the file each time: a descriptor that outlives this thread could be lost in a cancel."""
    try:
        with open_root(file.root) as root:
            descriptor = open_inside(root, file.relative, os.O_RDONLY)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise InputError(f"input {shown(str(file.relative))} is not a regular file any more")
            return os.pread(descriptor, min(CHUNK, file.size - offset), offset)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise InputError(f"cannot read input {shown(str(file.relative))}: {error.strerror}") from error
