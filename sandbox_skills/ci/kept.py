"""What failed cases left, kept in a folder of the host for whoever looks into them. Blocking."""

from __future__ import annotations

import json
import os
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from sandbox_skills.errors import OutputError
from sandbox_skills.workspace.host_file import InTheWayError, write_whole
from sandbox_skills.workspace.paths import open_root
from sandbox_skills.workspace.upload_names import upload_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from sandbox_skills.ci.results import TrialResult


def keep(folder: Path, results: Sequence[TrialResult]) -> tuple[Path, ...]:
    """Writes results, their output and files below the folder, each in a place of its own; returns the places.

    A stranger's names become harmless ones, and no link below the folder is followed. Raises OutputError.
    """
    names = upload_names(_name(one) for one in results)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open_root(folder.resolve()) as root:
            for name, result in zip(names, results, strict=True):
                for path, data in _files(result):
                    write_whole(root, PurePosixPath(name) / path, data)
    except (InTheWayError, OSError) as error:
        raise OutputError(f"{folder}: what failed cases left cannot be kept there: {error}") from error
    return tuple(folder / name for name in names)


def check_folder(folder: Path) -> None:
    """Raises OutputError where nothing could be kept: better before an hour of cases than after."""
    existing = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise OutputError(f"{folder}: {existing} is no folder that you may write to")


def _files(result: TrialResult) -> Iterator[tuple[PurePosixPath, bytes]]:
    text = json.dumps(result.as_dict(), indent=2, ensure_ascii=False)
    yield PurePosixPath("result.json"), (text + "\n").encode(errors="backslashreplace")
    if result.seen is None:
        return
    yield PurePosixPath("stdout"), result.seen.outcome.stdout
    yield PurePosixPath("stderr"), result.seen.outcome.stderr
    for file in result.seen.files:
        if ".git" not in file.path.parts:
            yield PurePosixPath("files") / file.path, file.data or b""


def _name(result: TrialResult) -> str:
    words = f"{result.trial.skill} {result.trial.name}".replace("/", "-").split()
    return "-".join(words)
