"""Small things done by the box's own programs: what the runner's messages have no words for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sandbox_skills.errors import EngineError, InputError, WorkspaceFullError
from sandbox_skills.spec import KIB, MIB, Command, Exited, Limits
from sandbox_skills.workspace.layout import SYSTEM_PATH
from sandbox_skills.workspace.paths import shown

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import PurePosixPath

    from sandbox_skills.engines.base import Sandbox
    from sandbox_skills.spec import Outcome

_LIMITS = Limits(wall_seconds=60.0, stdout_bytes=KIB, stderr_bytes=4 * KIB)
"""A copy of a full workspace takes under a second; a box that is starved of CPU may need longer."""

_LISTING_BYTES = 4 * MIB
"""Kept of a listing: 250 bytes for each entry of a usual workspace."""

_FOLDERS_AND_LINKS = (
    *("(", "-type", "l", "-o", "-type", "d", "(", "-empty", "-o", "!", "-perm", "755", ")", ")"),
    *("-printf", r"%y\0%m\0%p\0%l\0"),
)

_ENVIRONMENT = {"PATH": SYSTEM_PATH, "LC_ALL": "C"}

_PRIVATE_COPY = """\
if [ "$3" = keep ] && [ -d "$2" ] && [ ! -L "$2" ]; then exit 0; fi
rm -rf -- "$2" && cp -RP -- "$1" "$2" && chmod -R u+w -- "$2"
"""
"""A constant: paths are its arguments and never part of it. `cp` keeps links as links."""


async def remove_file(sandbox: Sandbox, path: PurePosixPath) -> bool:
    """Removes a file or link of the workspace; what is not there is fine. Returns False for a folder."""
    return (await _run(sandbox, "rm", "-f", "--", str(path))).ok


async def copy_in_box(sandbox: Sandbox, source: PurePosixPath, target: PurePosixPath) -> None:
    """Copies a file or tree, links as links, into a folder that exists; raises InputError, WorkspaceFullError."""
    outcome = await _run(sandbox, "cp", "-RPT", "--", str(source), str(target))
    _check(outcome, f"{shown(str(source))} cannot be copied to {shown(str(target))}")


async def private_copy(sandbox: Sandbox, source: PurePosixPath, target: PurePosixPath, *, keep: bool) -> None:
    """Makes a writable copy of a tree in place of what is at `target`; `keep` leaves a folder that is there.

    Raises InputError, WorkspaceFullError.
    """
    words = (str(source), str(target), "keep" if keep else "replace")
    outcome = await _run(sandbox, "sh", "-c", _PRIVATE_COPY, "sh", *words)
    _check(outcome, "the skill cannot be copied into the workspace")


async def list_folders_and_links(sandbox: Sandbox, roots: Sequence[str]) -> tuple[bytes, bool]:
    """Returns what `snapshot_entries.read_listing` reads, and whether that is all.

    Folders come where no file tells of them: empty, or of another mode than the usual one.
    """
    argv = ("find", *roots, "-mindepth", "1", *_FOLDERS_AND_LINKS)
    try:
        outcome = await _run(sandbox, *argv, limits=replace(_LIMITS, stdout_bytes=_LISTING_BYTES))
    except EngineError:
        if not sandbox.alive:
            raise
        return b"", False  # it runs as much as it may
    # It exits with 1 where a folder cannot be read, which the collection of files tells.
    whole = outcome.ending in {Exited(0), Exited(1)} and not outcome.stdout_truncated
    return outcome.stdout, whole


async def remove_empty_folders(sandbox: Sandbox, paths: Sequence[PurePosixPath]) -> None:
    """Removes folders, those that are there and empty."""
    await _run(sandbox, "rmdir", "--", *map(str, paths))


async def change_mode(sandbox: Sandbox, paths: Sequence[PurePosixPath], mode: int) -> None:
    """Gives folders a mode, those that are there."""
    await _run(sandbox, "chmod", f"{mode:o}", "--", *map(str, paths))


async def _run(sandbox: Sandbox, *argv: str, limits: Limits = _LIMITS) -> Outcome:
    return await sandbox.run(Command(argv, env=_ENVIRONMENT), limits=limits)


def _check(outcome: Outcome, what: str) -> None:
    if outcome.ok:
        return
    if outcome.limits_hit & {"disk", "inodes"}:
        raise WorkspaceFullError(f"{what}: the workspace is full")
    said = outcome.stderr.decode(errors="replace").strip()
    raise InputError(f"{what}: {shown(said) if said else outcome.ending}")
