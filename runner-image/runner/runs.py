"""One command from its start to its ENDED."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from .counters import difference
from .lean import signal, suppress
from .neighbours import spawn_recorded
from .pipes import NOTHING, close_pipes, open_pipes
from .protocol import Kind
from .scores import OWN_SCORE
from .spawning import limit_cpu, spawn, spawn_on_terminal
from .streams import Keyboard, Stdin, Stream
from .terminal import Terminal

if TYPE_CHECKING:
    import resource
    from typing import Any

    from .counters import Counters
    from .neighbours import Forks
    from .orders import Order
    from .pipes import PipeStock


CPU_TICK = 0.05
"""Shortest time between two looks at the CPU time of a run, in seconds: bounds the overshoot, costs below 1%."""


class Usage:
    """What the dead of a run have used."""

    def __init__(self) -> None:
        self.cpu = 0.0
        self.max_rss = 0

    def add(self, usage: resource.struct_rusage) -> None:
        """Adds one process with the children it had waited for."""
        self.cpu += usage.ru_utime + usage.ru_stime
        self.max_rss = max(self.max_rss, usage.ru_maxrss * 1024)


class Run:
    """One command from its start to its ENDED."""

    def __init__(
        self,
        ref: int,
        order: Order,
        counters: Counters,
        stock: PipeStock,
        skills: str,
        forks: Forks | None = None,
    ) -> None:
        self.ref = ref
        self.order = order
        self.usage = Usage()
        self.status: int | None = None
        self.stopped: str | None = None
        self.started = time.monotonic()
        self.cpu_due = self.started
        self._counters = counters
        self._counted = counters.at_start()
        self._left = order.output
        self._terminal: Terminal | None = None
        self._skills = skills
        self.recorder: Any = None
        with OWN_SCORE:
            if order.tty:
                self._open_terminal(order, order.tty)
            else:
                self._open_pipes(order, stock, forks)
        limit_cpu(self.pid, order)

    def _open_terminal(self, order: Order, size: tuple[int, int]) -> None:
        self._terminal = terminal = Terminal(size)
        self.streams: tuple[Stream, ...] = (Stream(Kind.STDOUT, terminal.control, order.stdout),)
        self.stdin = Stdin(None)
        try:
            self.stdin = Keyboard(os.dup(terminal.control))
            self.pid = spawn_on_terminal(order, terminal.path)
        except BaseException:
            self.close()
            raise

    def _open_pipes(self, order: Order, stock: PipeStock, forks: Forks | None) -> None:
        fed = open_pipes(1) if order.stdin == "pipe" else []
        try:
            (out, out_end), (err, err_end) = stock.take()
        except OSError:
            close_pipes(fed)
            raise
        self.stdin = Stdin(fed[0][1] if fed else None)
        self.streams = (Stream(Kind.STDOUT, out, order.stdout), Stream(Kind.STDERR, err, order.stderr))
        for _, writing in fed:
            os.set_blocking(writing, False)
        try:
            streams = fed[0][0] if fed else NOTHING, out_end, err_end
            if order.record:
                self.pid, self.recorder = spawn_recorded(order, self._skills, streams)
            else:
                self.pid = forks.spawn(order, streams) if forks else spawn(order, *streams)
        except BaseException:
            self.close()
            raise
        finally:
            for descriptor in (out_end, err_end, *(reading for reading, _ in fed)):
                os.close(descriptor)

    def close(self) -> None:
        """Closes our ends of the pipes, or the terminal."""
        self.stdin.close()
        for stream in self.streams:
            os.close(stream.descriptor)
        if self._terminal:
            self._terminal.close()
        if self.recorder:
            self.recorder.close()

    @property
    def over(self) -> bool:
        """Whether nothing of it should live any longer."""
        return self.status is not None or self.stopped is not None

    @property
    def silent(self) -> bool:
        """Whether nobody can write to it any more."""
        return all(stream.ended for stream in self.streams)

    def stop(self, reason: str) -> None:
        """Makes it over, unless it already is."""
        if not self.over:
            self.stopped = reason

    def resize(self, size: tuple[int, int]) -> None:
        """Changes the size of its terminal, if it has one."""
        if self._terminal:
            self._terminal.resize(size)

    def signal(self, number: int) -> None:
        """Signals the process group of its root, and the one in the foreground of its terminal."""
        if self.over:  # its root may be buried, and the number another's
            return
        groups = {self.pid, self._terminal.foreground() if self._terminal else 0} - {0}
        for group in groups:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, number)

    def accept(self, stream: Stream, count: int) -> int:
        """Counts output; returns how much of it is sent, and stops a run that wrote too much."""
        sent = stream.share(min(count, self._left))
        self._left -= count
        if self._left < 0:
            self._left = 0
            self.stopped = self.stopped or "output"
        return sent

    def wake_at(self) -> float:
        """Returns when time alone may stop it."""
        wall = self.started + self.order.wall
        return wall if self.order.cpu is None else min(wall, self.cpu_due)

    def charge(self, cpu: float, now: float) -> None:
        """Compares the CPU seconds used with the limit, and plans the next look for when it can be reached."""
        left = (self.order.cpu or 0.0) - cpu
        if left <= 0:
            self.stop("cpu_time")
        self.cpu_due = now + max(left / (os.cpu_count() or 1), CPU_TICK)

    def ended(self, *, clean: bool, full: tuple[bool, bool]) -> dict[str, object]:
        """Returns what ENDED tells."""
        code = None if self.status is None else os.waitstatus_to_exitcode(self.status)
        if code == -signal.SIGXCPU and self.order.cpu is not None:
            self.stopped = self.stopped or "cpu_time"
        oom, pids = self._counters.read()
        oom_before, pids_before = self._counted
        return {
            "exit": code if code is not None and code >= 0 else None,
            "signal": -code if code is not None and code < 0 else None,
            "stopped": self.stopped,
            "oom_kills": difference(oom, oom_before),
            "pids_max": difference(pids, pids_before),
            "disk_full": full[0],
            "inodes_full": full[1],
            "stdout_bytes": self.streams[0].total,
            "stderr_bytes": 0 if self._terminal else self.streams[1].total,
            "wall": time.monotonic() - self.started,
            "cpu": self.usage.cpu,
            "max_rss": self.usage.max_rss,
            "clean": clean,
            "unprepared": self.order.unprepared,
            "record": self.recorder.told() if self.recorder else None,
        }


def not_started(code: int, message: bytes) -> dict[str, object]:
    """Returns what ENDED tells of a command that could not be executed."""
    return {
        "exit": code,
        "signal": None,
        "stopped": None,
        "oom_kills": 0,
        "pids_max": 0,
        "disk_full": False,
        "inodes_full": False,
        "stdout_bytes": 0,
        "stderr_bytes": len(message),
        "wall": 0.0,
        "cpu": 0.0,
        "max_rss": 0,
        "clean": True,
    }
