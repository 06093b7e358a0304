"""How many boxes to keep ready: from how often they are asked for, and how long one takes to start. Pure.

By Little's law a start that takes L seconds misses `rate * L` callers; as many boxes must wait, and some more for
callers that come in a crowd.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

GROW_SECONDS = 10.0
"""Over which callers are averaged to keep more boxes: short, as a crowd is served cold until then."""

SHRINK_SECONDS = 60.0
"""Over which they are averaged to keep fewer: a box that was started for a pause's length was started for nothing."""

FIRST_START_SECONDS = 0.3
"""What a start is taken to last before one was measured."""

SPREAD = 2.0
"""How many standard deviations above the mean are provided for: of callers who come by chance 1 in 40 waits."""

NEWER = 0.2
"""How much of what a start is taken to last is what the last one lasted."""


class Rate:
    """Callers a second, averaged so that the last ones count most."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._sum = 0.0
        self._then = 0.0

    def add(self, now: float) -> None:
        """Counts one caller; `now` is seconds of a clock that never goes back."""
        self._sum = 1.0 + self._left(now)
        self._then = now

    def at(self, now: float) -> float:
        """Returns the rate, which falls while nobody comes."""
        return self._left(now) / self._seconds

    def _left(self, now: float) -> float:
        return self._sum * math.exp(-max(0.0, now - self._then) / self._seconds)


class Demand:
    """What one kind of box is asked for. It wants at least `minimum` of them, always."""

    def __init__(self, minimum: int = 0) -> None:
        self.minimum = minimum
        self._growing = Rate(GROW_SECONDS)
        self._shrinking = Rate(SHRINK_SECONDS)
        self._start_seconds: float = FIRST_START_SECONDS
        self._measured = False

    def ask(self, now: float) -> None:
        """Counts one who asked for a box, whether one was there or not."""
        self._growing.add(now)
        self._shrinking.add(now)

    def started(self, seconds: float) -> None:
        """Takes note of what a start lasted, from the wish for a box until it could be handed out."""
        if self._measured:
            seconds = (1 - NEWER) * self._start_seconds + NEWER * seconds
        self._start_seconds, self._measured = seconds, True

    def wanted(self, now: float) -> int:
        """Returns how many boxes should wait."""
        return max(self.minimum, enough(self._growing.at(now) * self._start_seconds))

    def kept(self, now: float) -> int:
        """Returns how many may go on waiting: never fewer than are wanted."""
        return max(self.wanted(now), enough(self._shrinking.at(now) * self._start_seconds))


def enough(mean: float) -> int:
    """Returns how many boxes serve `mean` callers a start, whom chance spreads as Poisson has it.

    One caller alone is not enough for one: most who come once do not come again.
    """
    return round(mean + SPREAD * math.sqrt(mean))


def shares(wanted: Sequence[int], maximum: int) -> list[int]:
    """Returns how many of `maximum` boxes each kind gets: what it wants, or as many as any other that lacks some."""
    given = [0] * len(wanted)
    for _ in range(min(maximum, sum(wanted))):
        lacking = [place for place, count in enumerate(wanted) if given[place] < count]
        given[min(lacking, key=lambda place: given[place])] += 1
    return given
