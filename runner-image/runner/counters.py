"""What the kernel counts of the limits that programs ran into."""

from __future__ import annotations

import os
from itertools import islice
from typing import TYPE_CHECKING

from .lean import suppress

if TYPE_CHECKING:
    from collections.abc import Iterable


UNREAD_SECONDS = 1.0
"""Between two looks at what runs leave unread of the kernel: a processor fills 25 to 50 MiB in that time (measured)."""

UNREAD_BYTES = 8 * 1024 * 1024
"""Answers of the kernel that may wait unread: those of 40 sockets that are full; who reads them has some KiB."""


class Counter:
    """A number that a cgroup keeps in a file, read many times. None where there is no such file."""

    def __init__(self, field: bytes, *paths: str) -> None:
        self._field = field
        self._descriptor: int | None = None
        for path in paths:
            with suppress(OSError):
                self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                return

    def read(self) -> int | None:
        """Returns the number as it is now."""
        if self._descriptor is None:
            return None
        try:
            words = os.pread(self._descriptor, 4096, 0).split()
            return int(words[words.index(self._field) + 1])
        except (OSError, ValueError):
            return None


def unread_answers() -> int:
    """Returns the bytes that the kernel holds for netlink sockets of the box, which it counts for nobody."""
    with suppress(OSError, ValueError, IndexError), open("/proc/self/net/netlink", "rb") as file:
        return sum(int(line.split()[4]) for line in islice(file, 1, None))
    return 0


def difference(now: int | None, before: int | None) -> int | None:
    """Returns how much a counter has grown, None where it cannot be read."""
    return None if now is None or before is None else now - before


class Counters:
    """What the box's cgroup counts of the limits that programs ran into."""

    def __init__(self) -> None:
        root = "/sys/fs/cgroup"
        self._oom = Counter(b"oom_kill", f"{root}/memory.events", f"{root}/memory/memory.oom_control")
        self._pids = Counter(b"max", f"{root}/pids.events", f"{root}/pids/pids.events")
        self._resting: tuple[int | None, int | None] | None = None

    def read(self) -> tuple[int | None, int | None]:
        """Returns the out-of-memory kills and the refused forks so far."""
        return self._oom.read(), self._pids.read()

    def look(self) -> None:
        """Reads them for the next run, while nothing runs that they could count."""
        self._resting = self.read()

    def at_start(self) -> tuple[int | None, int | None]:
        """Returns what `read` does, or what `look` has read since the last start."""
        resting, self._resting = self._resting, None
        return resting or self.read()


def full(paths: Iterable[str]) -> tuple[bool, bool]:
    """Tells whether any of the file systems has no bytes, and whether any has no inodes left."""
    disk = inodes = False
    for path in paths:
        try:
            room = os.statvfs(path)
        except OSError:
            continue
        disk = disk or not room.f_bavail
        inodes = inodes or (room.f_files > 0 and not room.f_ffree)
    return disk, inodes
