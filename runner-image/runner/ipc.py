"""What outlives processes: shared memory, semaphores and queues."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .kernel import LIBC
from .lean import c_int, suppress

if TYPE_CHECKING:
    from collections.abc import Callable


IPC_RMID = 0
IPC_WORDS = 64
"""Words of a buffer for what the kernel tells of System V objects: its largest structure has 28."""

MESSAGE_QUEUES = "/dev/mqueue"


class SystemV:
    """One kind of System V objects: `control` acts on one, or tells of them all.

    Commands by the kernel's headers: `info` tells how many there are in its word `count`, `stat` the id of the object
    at an index, whatever its mode.
    """

    def __init__(self, control: Callable[[int, int, object], int], info: int, count: int, stat: int) -> None:
        self._control = control
        self._info = info
        self._count = count
        self._stat = stat
        self._words = (c_int * IPC_WORDS)()

    def clear(self) -> None:
        """Removes every object; a system call of a microsecond where there is none."""
        last = self._control(0, self._info, self._words)
        if last < 0 or not self._words[self._count]:
            return
        for index in range(last + 1):
            found = self._control(index, self._stat, self._words)
            if found >= 0:
                self._control(found, IPC_RMID, None)


SYSTEM_V = (
    SystemV(LIBC.shmctl, info=14, count=0, stat=15),
    SystemV(LIBC.msgctl, info=12, count=0, stat=13),
    SystemV(lambda found, command, words: LIBC.semctl(found, 0, command, words), info=19, count=7, stat=20),
)


def clear_ipc() -> None:
    """Removes the shared memory, semaphores and queues of this IPC namespace, which must be the box's own."""
    for kind in SYSTEM_V:
        kind.clear()
    with suppress(OSError):  # no such file system here
        for name in os.listdir(MESSAGE_QUEUES):
            with suppress(OSError):
                os.unlink(f"{MESSAGE_QUEUES}/{name}")
