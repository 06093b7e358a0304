"""The end of processes: every child is buried, and what must not live on is killed."""

from __future__ import annotations

import os
import select
import time
from typing import TYPE_CHECKING

from .lean import signal, suppress
from .processes import Process, ProcessTable, send_signal

if TYPE_CHECKING:
    import resource
    from collections.abc import Callable, Iterable, Sequence


KILL_SECONDS = 5.0
"""How long killing may take. Only a process stuck in the kernel needs more; waiting longer would not help it."""

DEATH_MILLISECONDS = 10
"""How long to wait for SIGCHLD after a kill before looking again: it is lost where another process is the parent."""

STOP_ROUNDS = 16
"""Searches that only stop what they find: enough to overtake a fork bomb, after which it is killed anyway."""

EMPTY_ROUNDS = 2
"""Searches in a row that must find nothing beside living runs: one alone can miss a child whose parent just died."""


class Reaper:
    """Buries every child that ends and kills what must not live on."""

    def __init__(
        self, wakeup: int, on_death: Callable[[int, int, resource.struct_rusage, int | None], None]
    ) -> None:
        self._wakeup = select.poll()
        self._wakeup.register(wakeup, select.POLLIN)
        self._wakeup_descriptor = wakeup
        self._on_death = on_death
        self._alone = os.getpid() == 1
        self._buried = 0
        self.tell_session = False

    def drain(self) -> None:
        """Empties the pipe that SIGCHLD writes to."""
        with suppress(BlockingIOError):
            while len(os.read(self._wakeup_descriptor, 4096)) == 4096:  # noqa: PLR2004  a full read: there may be more
                pass

    def bury(self) -> bool:
        """Buries the children that have ended; returns whether any live."""
        try:
            while True:
                chosen, session = self._peek() if self.tell_session else (-1, None)
                pid, status, usage = os.wait4(chosen, os.WNOHANG)
                if not pid:
                    return True
                self._buried += 1
                self._on_death(pid, status, usage, session)
        except ChildProcessError:
            return False

    @staticmethod
    def _peek() -> tuple[int, int | None]:
        """Returns the child to bury next and its session, which cannot be read any more afterwards."""
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        process = Process.read(found.si_pid) if found else None
        return (found.si_pid if found else -1), (process.session if process else None)

    def clear(self, spared: Iterable[int], trusted: Sequence[int] = ()) -> bool:
        """Kills and buries everything that cannot be traced to a root in `spared`; returns whether that was all.

        The trusted ones of a fork server live on beside others, and where nothing else is left.
        """
        roots = frozenset(spared)
        if trusted and not roots and self._alone_with(trusted):
            return True
        roots = roots.union(trusted) if roots else roots
        deadline = time.monotonic() + KILL_SECONDS
        hunt = Hunt(roots)
        while self.bury():
            if roots and hunt.sure:
                return True
            if time.monotonic() > deadline:
                return False
            if self._kill_all() if self._alone and not roots else hunt.round():
                self._wakeup.poll(DEATH_MILLISECONDS)
                self.drain()
        return True

    def _alone_with(self, trusted: Iterable[int]) -> bool:
        """Tells whether no process lives but the runner and these.

        What one look at `/proc` misses was born during it, below one that ended during it; and of those that end, one
        has the runner for a parent.
        """
        self.bury()
        before = self._buried
        pids = {int(name) for name in os.listdir("/proc") if name.isdigit()}
        self.bury()
        return pids == {os.getpid(), *trusted} and before == self._buried

    @staticmethod
    def _kill_all() -> bool:
        with suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        return True


class Hunt:
    """The search for what is left of a run, in rounds: first stop all, so that nothing multiplies, then kill."""

    def __init__(self, spared: frozenset[int]) -> None:
        self._spared = spared
        self._stopped: set[tuple[int, int]] = set()
        self._rounds = 0
        self._empty = 0

    @property
    def sure(self) -> bool:
        """Whether nothing was found often enough."""
        return self._empty >= EMPTY_ROUNDS

    def round(self) -> bool:
        """Searches and strikes once; returns whether anything is about to die."""
        prey = [
            process
            for process, root in ProcessTable().descendants(os.getpid(), self._spared)
            if root is None and not process.dead
        ]
        self._rounds += 1
        self._empty = 0 if prey else self._empty + 1
        fresh = [process for process in prey if (process.pid, process.started) not in self._stopped]
        if fresh and self._rounds <= STOP_ROUNDS:
            self._strike(fresh, signal.SIGSTOP)
            self._stopped.update((process.pid, process.started) for process in fresh)
            return False
        self._strike(prey, signal.SIGKILL)
        return bool(prey)

    @staticmethod
    def _strike(processes: Iterable[Process], number: int) -> None:
        for process in processes:
            send_signal(process, number)
