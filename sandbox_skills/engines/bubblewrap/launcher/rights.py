"""What a process gives up on its way to being a box: descriptors, limits, its uid, and what it ignored."""

from __future__ import annotations

import os
import resource
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

from .kernel import PR_SET_PDEATHSIG, call

if TYPE_CHECKING:
    from typing import Any

FILTER = 3
"""The descriptor on which bubblewrap is told to find the seccomp filter."""

IGNORED = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ)
"""What the launcher does not die of: its end is the end of its socket. The last two are Python's own doing."""

RLIMITS = {
    "nofile": resource.RLIMIT_NOFILE,
    "fsize": resource.RLIMIT_FSIZE,
    "core": resource.RLIMIT_CORE,
    "nproc": resource.RLIMIT_NPROC,
    "data": resource.RLIMIT_DATA,
}


def take_descriptors(channel: int, words: int, filter_: int) -> None:
    """Gives the box its channel, the pipe for its last words, a filter that nobody else reads, and nothing more.

    A descriptor that came over the socket would go on through every exec: a program on a terminal had the channel so.
    """
    fresh = os.open(f"/proc/self/fd/{filter_}", os.O_RDONLY)
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the listing's own
            os.set_inheritable(int(name), False)
    for number, descriptor in ((0, channel), (1, channel), (2, words), (FILTER, fresh)):
        os.dup2(descriptor, number)


def lower_limit(which: int, value: int) -> None:
    """Sets a limit, never above the one that this process has; that of a core where it can be, as 0 would be less."""
    if which == resource.RLIMIT_CORE:
        with suppress(OSError, ValueError):
            resource.setrlimit(which, (value, value))
            return
    hard = resource.getrlimit(which)[1]
    chosen = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (chosen, chosen))


def drop_rights(order: dict[str, Any]) -> None:
    """Becomes the box's uid. Who is not root (`uid` null) keeps his own, and loses with the exec what he has here."""
    uid = order["uid"]
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    call("prctl", PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
