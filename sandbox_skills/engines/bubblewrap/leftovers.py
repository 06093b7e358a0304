"""What a box can leave where both its engine's process and its launcher were killed: empty cgroups, and nothing else.

Its processes die with bubblewrap, its mounts with its namespaces.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox_skills.engines.bubblewrap.order import GROUP_PREFIX
from sandbox_skills.spec import SandboxId

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from sandbox_skills.engines.bubblewrap.cgroup import Hierarchy

REMOVE_SECONDS = 2.0
"""How long a removal may take: what was killed a moment ago is buried within milliseconds."""

POLL_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class Leftover:
    """The groups of one box, and whose it is."""

    id: SandboxId
    instance: str
    groups: tuple[Path, ...]


def leftovers(hierarchies: Iterable[Hierarchy]) -> list[Leftover]:
    """Returns every box that has a group here, whoever made it and whether it lives."""
    groups: dict[tuple[str, str], list[Path]] = {}
    for hierarchy in hierarchies:
        with suppress(OSError):
            for path in hierarchy.parent.iterdir():
                instance, _, name = path.name.removeprefix(GROUP_PREFIX).partition("-")
                if path.name.startswith(GROUP_PREFIX) and name:
                    groups.setdefault((instance, name), []).append(path)
    return [Leftover(SandboxId(name), instance, tuple(paths)) for (instance, name), paths in groups.items()]


def remove(groups: Collection[Path]) -> bool:
    """Kills what is in the groups and removes them; returns whether they are gone. Blocks up to REMOVE_SECONDS."""
    deadline = time.monotonic() + REMOVE_SECONDS
    while True:
        for group in groups:
            _kill(group)
            with suppress(OSError):
                group.rmdir()
        if not any(group.exists() for group in groups):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)


def _kill(group: Path) -> None:
    with suppress(OSError, ValueError):
        for word in (group / "cgroup.procs").read_text(encoding="ascii").split():
            with suppress(ProcessLookupError):
                os.kill(int(word), signal.SIGKILL)
