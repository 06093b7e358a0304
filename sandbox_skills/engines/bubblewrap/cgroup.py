"""Where this process may limit boxes, and what it writes there: control groups of version 1 and 2.

A box's group is made beside or below the group of this process, so that whatever limits us limits our boxes too.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox_skills.engines.cgroup_mounts import PROC, SOCKET_MEMORY, UNIFIED, mounts, own_groups, parents
from sandbox_skills.spec import Guarantee

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from pathlib import Path

    from sandbox_skills.engines.cgroup_mounts import Mount
    from sandbox_skills.spec import SandboxLimits

CONTROLLERS: Mapping[str, Guarantee] = {
    "memory": Guarantee.MEMORY,
    "pids": Guarantee.PIDS,
    "cpu": Guarantee.CPU,
}
"""What is limited, and the guarantee that it stands for."""

PERIOD = 100_000
"""Microseconds in which a CPU quota is counted; the kernel's own default, and Docker's."""


@dataclass(frozen=True, slots=True)
class File:
    """One file of a group and what is written to it; an optional one may be missing."""

    name: str
    value: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Where groups with these controllers can be made; `version` 2 has all of them in one place."""

    version: int
    controllers: tuple[str, ...]
    parent: Path

    @property
    def oom_file(self) -> str:
        """The file that counts what was killed for memory; empty where this hierarchy does not limit that."""
        if "memory" not in self.controllers:
            return ""
        return "memory.events" if self.version == UNIFIED else "memory.oom_control"

    @property
    def join_file(self) -> str:
        """The file that a process with one thread joins a group by, writing 0.

        The kernel stops nothing for a thread that moves itself, but every fork of the host for a whole process: 6 to
        15 ms (measured). Version 2 has groups of threads only where somebody made them so.
        """
        return "cgroup.procs" if self.version == UNIFIED else "tasks"

    @property
    def places(self) -> tuple[str, ...]:
        """Where a box is shown its group, below /sys/fs/cgroup: as the runner looks for it."""
        return ("",) if self.version == UNIFIED else self.controllers


def hierarchies() -> tuple[Hierarchy, ...]:
    """Returns where this process can make groups that limit something; none where it may not."""
    try:
        groups = (PROC / "cgroup").read_text(encoding="utf-8")
        mounted = (PROC / "mountinfo").read_text(encoding="utf-8")
    except OSError:
        return ()
    return tuple(found(groups, mounted, _given))


def found(groups: str, mounted: str, given: Callable[[Path, Mount], Collection[str]]) -> Iterator[Hierarchy]:
    """Yields the same from the texts of /proc/self/cgroup and mountinfo.

    `given` says which controllers a group made in a directory would have. Of version 1 our own group is where to make
    one. Of version 2 a group that has processes hands nothing down, so that the search goes up from ours.
    """
    own = dict(own_groups(groups))
    missing = set(CONTROLLERS)
    for mount in sorted(mounts(mounted), key=lambda each: each.version):
        for parent in parents(mount, own):
            controllers = tuple(name for name in CONTROLLERS if name in missing & set(given(parent, mount)))
            if controllers:
                missing -= set(controllers)
                yield Hierarchy(mount.version, controllers, parent)
                break


def _given(parent: Path, mount: Mount) -> Collection[str]:
    """Returns the controllers of a group that is made in `parent`; none where we may not make one."""
    if not os.access(parent, os.W_OK):
        return ()
    if mount.version != UNIFIED:
        return mount.controllers
    try:
        return (parent / "cgroup.subtree_control").read_text(encoding="ascii").split()
    except OSError:
        return ()


def files(hierarchy: Hierarchy, limits: SandboxLimits) -> tuple[File, ...]:
    """Returns what is written to a box's group. Pure."""
    by_controller = _VERSIONS[hierarchy.version](limits)
    return tuple(file for name in hierarchy.controllers for file in by_controller[name])


def _version_1(limits: SandboxLimits) -> dict[str, tuple[File, ...]]:
    return {
        "memory": (
            File("memory.limit_in_bytes", str(limits.memory)),
            # Memory and swap together: a kernel without swap accounting has no such file.
            File("memory.memsw.limit_in_bytes", str(limits.memory), optional=True),
            # Buffers of sockets are counted apart, and not at all where nothing limits them: a box filled 3 GiB of
            # the host's, up to where no program of the host could send any more (seen).
            File(SOCKET_MEMORY, str(limits.memory), optional=True),
        ),
        "pids": (File("pids.max", str(limits.pids)),),
        "cpu": (
            File("cpu.cfs_period_us", str(PERIOD)),
            File("cpu.cfs_quota_us", str(int(limits.cpus * PERIOD))),
        ),
    }


def _version_2(limits: SandboxLimits) -> dict[str, tuple[File, ...]]:
    return {
        "memory": (
            File("memory.max", str(limits.memory)),
            File("memory.swap.max", "0", optional=True),
        ),
        "pids": (File("pids.max", str(limits.pids)),),
        "cpu": (File("cpu.max", f"{int(limits.cpus * PERIOD)} {PERIOD}"),),
    }


_VERSIONS: Mapping[int, Callable[[SandboxLimits], dict[str, tuple[File, ...]]]] = {
    1: _version_1,
    UNIFIED: _version_2,
}
