"""One uid for each box that lives, across every process of this host.

A lease is an abstract unix socket bound to a name that holds the uid: the kernel refuses a second one, and ends the
lease with its process, so nothing is left to clean.
"""

from __future__ import annotations

import errno
import random
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sandbox_skills.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Generator


@contextmanager
def leased_uid(first: int, count: int) -> Generator[int]:
    """Leases a uid from `first` up to `first + count - 1`; raises EngineError when all are in use.

    Starts at a random place, so that a uid is seldom used again soon after a box that had it.
    """
    start = random.randrange(count)  # noqa: S311  # spreads, protects nothing
    for step in range(count):
        uid = first + (start + step) % count
        lease = _lease(uid)
        if lease is not None:
            with lease:
                yield uid
            return
    raise EngineError(
        f"all {count} uids for sandboxes are in use", hint="close sandboxes, or run fewer at once"
    )


def _lease(uid: int) -> socket.socket | None:
    """Returns what holds the uid until it is closed, None where somebody else does."""
    try:
        lease = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    except OSError as error:
        raise EngineError(f"cannot lease a uid: {error}") from error
    try:
        lease.bind(f"\0sandbox-skills-uid-{uid}")
    except OSError as error:
        lease.close()
        if error.errno == errno.EADDRINUSE:
            return None
        raise EngineError(f"cannot lease a uid: {error}") from error
    return lease
