"""Where this host has its control groups of version 1 and 2, by what the kernel tells of a process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

UNIFIED = 2
"""The version that has all controllers in one hierarchy."""

SOCKET_MEMORY = "memory.kmem.tcp.limit_in_bytes"
"""Limits the buffers of TCP and UDP sockets in version 1; version 2 counts them as memory."""

PROC = Path("/proc/self")


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted hierarchy: its version, the controllers it has, where it is, and which group that directory is."""

    version: int
    controllers: tuple[str, ...]
    point: Path
    root: PurePosixPath


def group_of(pid: int, controller: str) -> Path | None:
    """Returns the group of version 1 that a process is in, by one of the kernel's controllers; None where none is."""
    try:
        groups = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8")
        text = (PROC / "mountinfo").read_text(encoding="utf-8")
    except OSError:
        return None
    own = dict(own_groups(groups))
    for mount in mounts(text):
        if mount.version != UNIFIED and controller in mount.controllers:
            return next(iter(parents(mount, own)), None)
    return None


def parents(mount: Mount, own: Mapping[str, PurePosixPath]) -> Iterator[Path]:
    """Yields the directory of a process's own group, and in version 2 those above it, the nearest first. Pure."""
    group = own.get("") if mount.version == UNIFIED else _group_in(mount, own)
    if group is None or not group.is_relative_to(mount.root):
        return
    inside = group.relative_to(mount.root)
    yield mount.point / inside
    if mount.version == UNIFIED:
        yield from (mount.point / above for above in inside.parents)


def _group_in(mount: Mount, own: Mapping[str, PurePosixPath]) -> PurePosixPath | None:
    return next((own[name] for name in mount.controllers if name in own), None)


def own_groups(text: str) -> Iterator[tuple[str, PurePosixPath]]:
    """Yields controllers and groups from the text of /proc/PID/cgroup; version 2 has the controller "". Pure."""
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for name in controllers.split(","):
            yield name, PurePosixPath(path)


def mounts(text: str) -> Iterator[Mount]:
    """Yields the hierarchies in the text of /proc/PID/mountinfo. Pure."""
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        root, point = left.split()[3:5]
        kind, _, options = right.split(" ", 2)
        if kind == "cgroup":
            # Among the options of a mount are its controllers.
            yield Mount(1, tuple(options.split(",")), Path(point), PurePosixPath(root))
        elif kind == "cgroup2":
            yield Mount(UNIFIED, (), Path(point), PurePosixPath(root))
