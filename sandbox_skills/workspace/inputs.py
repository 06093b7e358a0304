"""Host files for a run: found and measured before anything starts, then put into the box."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import anyio.to_thread

from sandbox_skills.errors import InputError
from sandbox_skills.spec import MIB
from sandbox_skills.workspace.layout import INPUTS_DIR, WORKSPACE_VARIABLES, expand_variable
from sandbox_skills.workspace.paths import box_path, open_inside, open_root, safe_file_name, shown

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from sandbox_skills.engines.base import Sandbox

MAX_INPUT_FILES = 10_000
"""Files of all inputs together: below the inodes of a default workspace."""

CHUNK = 256 * 1024


@dataclass(frozen=True, slots=True)
class Input:
    """A host file or folder, and where it goes in the workspace: default `work/inputs/<its name>`."""

    source: Path
    to: str = ""


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One file to put: opened below `root` without following a link."""

    root: Path
    relative: PurePosixPath
    target: PurePosixPath
    size: int
    mode: int


def plan_inputs(inputs: Sequence[Input], *, max_bytes: int) -> tuple[PlannedFile, ...]:
    """Returns every file of the inputs; raises InputError and PathEscapeError before anything is started.

    A source that is a link is followed once: the caller named it. Links inside a folder are left out.
    """
    files: list[PlannedFile] = []
    for one in inputs:
        files.extend(_plan_one(one))
    total = sum(file.size for file in files)
    if len(files) > MAX_INPUT_FILES or total > max_bytes:
        raise InputError(
            f"the inputs have {len(files)} files of {total / MIB:.1f} MiB; {MAX_INPUT_FILES} files and"
            f" {max_bytes / MIB:.0f} MiB fit",
            hint="raise sandbox.workspace_bytes, or give fewer files",
        )
    return tuple(files)


def target_of(one: Input) -> PurePosixPath:
    """Returns the box path of an input: `inputs/x` is `work/inputs/x`, a trailing slash keeps the source's name."""
    name = safe_file_name(one.source.name, default="input")
    text = expand_variable(one.to.strip(), WORKSPACE_VARIABLES)
    if text in {"", ".", "inputs", "inputs/"}:
        return INPUTS_DIR / name
    if text.startswith("inputs/"):
        text = f"work/{text}"
    path = box_path(text)
    return path / name if text.endswith("/") else path


def _plan_one(one: Input) -> Iterator[PlannedFile]:
    target = target_of(one)
    try:
        source = one.source.resolve(strict=True)
        info = source.stat()
    except OSError as error:
        raise InputError(f"no input at {shown(str(one.source))}: {error.strerror}") from error
    if stat.S_ISREG(info.st_mode):
        yield PlannedFile(
            source.parent, PurePosixPath(source.name), target, info.st_size, info.st_mode & 0o777
        )
    elif stat.S_ISDIR(info.st_mode):
        yield from _plan_folder(source, target)
    else:
        raise InputError(f"input {shown(str(one.source))} is neither a file nor a folder")


def _plan_folder(source: Path, target: PurePosixPath) -> Iterator[PlannedFile]:
    for folder, names, files in os.walk(source):
        names.sort()
        for name in sorted(files):
            path = Path(folder, name)
            info = path.lstat()
            if stat.S_ISREG(info.st_mode):
                relative = PurePosixPath(path.relative_to(source))
                yield PlannedFile(source, relative, target / relative, info.st_size, info.st_mode & 0o777)


async def put_inputs(sandbox: Sandbox, files: Sequence[PlannedFile]) -> None:
    """Puts planned files into the box; raises InputError where one changed its kind, WorkspaceFullError."""
    for file in files:
        await sandbox.put(file.target, _chunks(file), mode=0o755 if file.mode & 0o100 else 0o644)


async def _chunks(file: PlannedFile) -> AsyncIterator[bytes]:
    descriptor = await anyio.to_thread.run_sync(_open, file)
    try:
        left = file.size
        while left > 0:
            data = await anyio.to_thread.run_sync(os.read, descriptor, min(CHUNK, left))
            if not data:
                break
            left -= len(data)
            yield data
    finally:
        os.close(descriptor)


def _open(file: PlannedFile) -> int:
    try:
        with open_root(file.root) as root:
            descriptor = open_inside(root, file.relative, os.O_RDONLY)
    except OSError as error:
        raise InputError(f"cannot read input {shown(str(file.relative))}: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InputError(f"input {shown(str(file.relative))} is not a regular file any more")
    return descriptor
