"""The cgroups of one box."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from .kernel import write

if TYPE_CHECKING:
    from typing import Any


def make_groups(groups: list[dict[str, Any]]) -> None:
    """Makes a box's cgroups with their limits; leaves none behind where one cannot be made."""
    try:
        for group in groups:
            os.mkdir(group["path"])
            for name, value, optional in group["files"]:
                try:
                    write(f"{group['path']}/{name}", value)
                except FileNotFoundError:
                    if not optional:
                        raise
    except OSError:
        remove_groups(groups)
        raise


def remove_groups(groups: list[dict[str, Any]]) -> bool:
    """Removes them; returns whether all are gone, which they are not as long as a task is in them."""
    busy = False
    for group in groups:
        try:
            os.rmdir(group["path"])
        except FileNotFoundError:
            pass
        except OSError:
            busy = True
    return not busy


def oom_kills(groups: list[dict[str, Any]]) -> int:
    """Returns how many tasks the kernel has killed for memory, 0 where nobody counts."""
    for group in groups:
        if group["oom"]:
            with (
                suppress(OSError, ValueError),
                open(f"{group['path']}/{group['oom']}", encoding="ascii") as file,
            ):
                words = file.read().split()
                return int(words[words.index("oom_kill") + 1])
    return 0
