"""Where this process may limit boxes, and what it writes there: control groups of version 1 and 2.

A box's group is made beside or below the group of this process, so that whatever limits us limits our boxes too.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from sandbox_skills.spec import Guarantee

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from sandbox_skills.spec import SandboxLimits

CONTROLLERS: Mapping[str, Guarantee] = {
    "memory": Guarantee.MEMORY,
    "pids": Guarantee.PIDS,
    "cpu": Guarantee.CPU,
}
"""What is limited, and the guarantee that it stands for."""

UNIFIED = 2
"""The version that has all controllers in one hierarchy."""

PERIOD = 100_000
"""Microseconds in which a CPU quota is counted; the kernel's own default, and Docker's."""

SOCKET_MEMORY = "memory.kmem.tcp.limit_in_bytes"
"""Limits the buffers of TCP and UDP sockets in version 1; version 2 counts them as memory."""

PROC = Path("/proc/self")


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


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted hierarchy: its version, the controllers it has, where it is, and which group that directory is."""

    version: int
    controllers: tuple[str, ...]
    point: Path
    root: PurePosixPath


def hierarchies() -> tuple[Hierarchy, ...]:
    """Returns where this process can make groups that limit something; none where it may not."""
    try:
        groups = (PROC / "cgroup").read_text(encoding="utf-8")
        mounts = (PROC / "mountinfo").read_text(encoding="utf-8")
    except OSError:
        return ()
    return tuple(found(groups, mounts, _given))


def found(groups: str, mounts: str, given: Callable[[Path, Mount], Collection[str]]) -> Iterator[Hierarchy]:
    """Yields the same from the texts of /proc/self/cgroup and mountinfo.

    `given` says which controllers a group made in a directory would have. Of version 1 our own group is where to make
    one. Of version 2 a group that has processes hands nothing down, so that the search goes up from ours.
    """
    own = dict(_own_groups(groups))
    missing = set(CONTROLLERS)
    for mount in sorted(_mounts(mounts), key=lambda each: each.version):
        for parent in _parents(mount, own):
            controllers = tuple(name for name in CONTROLLERS if name in missing & set(given(parent, mount)))
            if controllers:
                missing -= set(controllers)
                yield Hierarchy(mount.version, controllers, parent)
                break


def group_of(pid: int, controller: str) -> Path | None:
    """Returns the group of version 1 that a process is in, by one of the kernel's controllers; None where none is."""
    try:
        groups = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8")
        mounts = (PROC / "mountinfo").read_text(encoding="utf-8")
    except OSError:
        return None
    own = dict(_own_groups(groups))
    for mount in _mounts(mounts):
        if mount.version != UNIFIED and controller in mount.controllers:
            return next(iter(_parents(mount, own)), None)
    return None


def _parents(mount: Mount, own: Mapping[str, PurePosixPath]) -> Iterator[Path]:
    """Yields where in a hierarchy a group of ours may be made, the nearest first."""
    group = own.get("") if mount.version == UNIFIED else _group_of(mount, own)
    if group is None or not group.is_relative_to(mount.root):
        return
    inside = group.relative_to(mount.root)
    yield mount.point / inside
    if mount.version == UNIFIED:
        yield from (mount.point / above for above in inside.parents)


def _group_of(mount: Mount, own: Mapping[str, PurePosixPath]) -> PurePosixPath | None:
    return next((own[name] for name in mount.controllers if name in own), None)


def _own_groups(text: str) -> Iterator[tuple[str, PurePosixPath]]:
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for name in controllers.split(","):
            yield name, PurePosixPath(path)


def _mounts(text: str) -> Iterator[Mount]:
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        root, point = left.split()[3:5]
        kind, _, options = right.split(" ", 2)
        if kind == "cgroup":
            # Among the options of a mount are its controllers.
            yield Mount(1, tuple(options.split(",")), Path(point), PurePosixPath(root))
        elif kind == "cgroup2":
            yield Mount(UNIFIED, (), Path(point), PurePosixPath(root))


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
