"""How fast the output of a box is taken in: a box that floods whoever listens would cost its neighbours the host. Pure.

Every byte of it is carried by the daemon and by the host's own process, whose processors no limit of the box counts.
"""

from __future__ import annotations

from sandbox_skills.spec import MIB

OUTPUT_RATE = 32 * MIB
"""Bytes a second in the long run: more than anybody reads, and a few percent of one processor.

Without it `yes` through Docker's attached stream made a neighbour's runs 2 to 3.5 times as slow on 2 cores.
"""

OUTPUT_BURST = 4 * MIB
"""Bytes that are taken as fast as they come, after as long a rest."""


class Pace:
    """Bytes that may be taken at once, refilled at `rate` a second and never more than `burst`."""

    def __init__(self, rate: float = OUTPUT_RATE, burst: float = OUTPUT_BURST) -> None:
        self._rate = rate
        self._burst = burst
        self._left = burst
        self._then = 0.0

    def taken(self, count: int, now: float) -> float:
        """Counts bytes that came; returns the seconds to take none, 0 while there is room for more.

        `now` is seconds of a clock that never goes back.
        """
        self._left = min(self._left + (now - self._then) * self._rate, self._burst) - count
        self._then = now
        return max(-self._left / self._rate, 0.0)
