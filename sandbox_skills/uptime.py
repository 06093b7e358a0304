"""How long this host has been up: the one clock that all its processes share and that nobody sets.

What decides whether something is still in use goes by it. The time of day jumps: a clock that was wrong is put right.
"""

from __future__ import annotations

import time


def uptime() -> float:
    """Returns the seconds since this host started, its sleep included. One that was noted before may lie ahead."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
