"""Names for files that somebody uploads: harmless, and each its own. Pure."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from sandbox_skills.workspace.paths import safe_file_name

if TYPE_CHECKING:
    from collections.abc import Iterable

UNNAMED = "upload"
"""What a file is called whose name says nothing."""


def upload_names(names: Iterable[str], *, taken: Iterable[str] = ()) -> tuple[str, ...]:
    """Returns a file name for each foreign name, in order: `a.txt`, and `a_2.txt` for the second of that name.

    None of them is one of `taken`, nor differs from another only by capitals.
    """
    used = {name.casefold() for name in taken}
    given: list[str] = []
    for name in names:
        given.append(_free(safe_file_name(name, default=UNNAMED), used))
        used.add(given[-1].casefold())
    return tuple(given)


def _free(name: str, used: set[str]) -> str:
    path = PurePosixPath(name)
    free, number = name, 1
    while free.casefold() in used:
        number += 1
        free = safe_file_name(f"{path.stem}_{number}{path.suffix}", default=UNNAMED)
    return free
