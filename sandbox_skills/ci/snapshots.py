"""Kept texts that outputs are compared with, in a skill's `tests/snapshots/`. Blocking; nothing leaves the skill."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from sandbox_skills.catalog.resources import open_skill_file
from sandbox_skills.ci.files import globs
from sandbox_skills.errors import InputError, OutputError, PathEscapeError
from sandbox_skills.spec import MIB
from sandbox_skills.workspace.host_file import InTheWayError, write_whole
from sandbox_skills.workspace.paths import open_root

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sandbox_skills.ci.expect import Expect
    from sandbox_skills.ci.observed import Observed

FOLDER = "tests/snapshots"

MAX_BYTES = 4 * MIB
"""As much as is collected of one file."""


def read_snapshots(skill: Path, names: Iterable[str]) -> dict[str, str | None]:
    """Returns the kept texts by name, None for those that are not there."""
    return {name: _read(skill, name) for name in names}


def _read(skill: Path, name: str) -> str | None:
    try:
        descriptor = open_skill_file(str(skill), f"{FOLDER}/{name}")
    except (InputError, PathEscapeError):
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read(MAX_BYTES).decode(errors="backslashreplace")


def snapshots_of(expected: Expect, seen: Observed) -> dict[str, str]:
    """Returns what each snapshot would be by what a run has shown. Pure."""
    found: dict[str, str] = {}
    streams = ((expected.stdout, seen.outcome.stdout), (expected.stderr, seen.outcome.stderr))
    for wanted, data in streams:
        if wanted is not None and wanted.snapshot is not None:
            found[wanted.snapshot] = data.decode(errors="backslashreplace")
    for one in expected.files:
        if one.content is not None and one.content.snapshot is not None:
            patterns = globs(one.path)
            for file in seen.files:
                if any(glob.matches(str(file.path)) for glob in patterns):
                    found[one.content.snapshot] = (file.data or b"").decode(errors="backslashreplace")
    return found


def keep_snapshots(skill: Path, texts: Mapping[str, str]) -> tuple[str, ...]:
    """Writes the snapshots that differ from what is kept, and returns their names; raises OutputError."""
    changed = [name for name, text in texts.items() if _read(skill, name) != text]
    with open_root(skill.resolve()) as root:
        for name in changed:
            _write(root, PurePosixPath(FOLDER, name), texts[name].encode())
    return tuple(changed)


def _write(root: int, path: PurePosixPath, data: bytes) -> None:
    try:
        write_whole(root, path, data)
    except (InTheWayError, PathEscapeError, OSError) as error:
        raise OutputError(f"the snapshot {path} cannot be kept: {error}") from error
