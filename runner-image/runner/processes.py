"""The processes of the box, as `/proc` shows them."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from .lean import signal, suppress

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class Process:
    """One line of /proc/PID/stat. `cpu` is in seconds and includes the children it has waited for."""

    __slots__ = ("cpu", "dead", "parent", "pid", "session", "started")

    def __init__(self, pid: int, line: bytes) -> None:
        fields = line[line.rindex(b")") + 2 :].split()  # the name before it may hold anything
        self.pid = pid
        # A process whose first thread has ended looks like a zombie, and lives as long as its other threads.
        self.dead = fields[0] in {b"Z", b"X"} and int(fields[17]) <= 1
        self.parent = int(fields[1])
        self.session = int(fields[3])
        self.cpu = sum(map(int, fields[11:15])) / CLOCK_TICKS
        self.started = int(fields[19])

    @classmethod
    def read(cls, pid: int) -> Process | None:
        """Returns the process as it is now, or None when it is gone."""
        try:
            with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
                return cls(pid, file.read())
        except (OSError, ValueError):
            return None


class ProcessTable:
    """All processes at one moment, more or less: they go on while it is read."""

    def __init__(self) -> None:
        self._processes: dict[int, Process] = {}
        for name in os.listdir("/proc"):
            if name.isdigit():
                self._look(int(name))

    def _look(self, pid: int) -> Process | None:
        process = Process.read(pid)
        if process:
            self._processes[pid] = process
        return process

    def _lineage(self, process: Process) -> Iterator[Process]:
        """Yields the process and those above it, as far up as they are known."""
        seen: set[int] = set()
        current: Process | None = process
        while current and current.pid not in seen:
            seen.add(current.pid)
            yield current
            above = self._processes.get(current.parent)
            if not above and current.parent:  # the parent died during the reading: see who adopted the child
                fresh = self._look(current.pid)
                above = self._processes.get(fresh.parent) if fresh else None
            current = above

    def descendants(self, ancestor: int, roots: Iterable[int]) -> Iterator[tuple[Process, int | None]]:
        """Yields what descends from `ancestor`, with the root that it can be traced to by parents or session."""
        known = frozenset(roots)
        for process in list(self._processes.values()):
            root = None
            for above in self._lineage(process):
                if above.pid == ancestor:
                    if process.pid != ancestor:
                        yield process, root
                    break
                root = root or next((pid for pid in (above.pid, above.session) if pid in known), None)


def send_signal(process: Process, number: int) -> None:
    """Signals that very process, never another that has got its number since."""
    with suppress(OSError):
        try:
            handle = os.pidfd_open(process.pid)
        except OSError as error:
            if error.errno == errno.ESRCH:
                return
            os.kill(process.pid, number)  # a kernel or a filter without pidfd
            return
        try:
            again = Process.read(process.pid)
            if again and again.started == process.started:
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)
