"""What was read or looked at a moment ago, so that it need not be again: a memory alone, which nothing depends on."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

K = TypeVar("K", bound="Hashable")
V = TypeVar("V")


class BriefMemory(Generic[K, V]):
    """Values by their keys, each for `seconds`, and of `most` keys: what was kept longest goes first."""

    def __init__(self, seconds: float, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._most = most
        self._clock = clock
        self._known: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def keep(self, key: K, value: V) -> None:
        """Remembers a value from now on, in place of the one before."""
        self._known.pop(key, None)
        self._known[key] = (self._clock(), value)
        while len(self._known) > self._most:
            self._known.popitem(last=False)

    def get(self, key: K) -> V | None:
        """Returns what is kept for a key; None where that is nothing, or too old."""
        known = self._known.get(key)
        return known[1] if known is not None and self._clock() - known[0] < self._seconds else None

    def take(self, key: K) -> V | None:
        """Returns what `get` does, and forgets it."""
        found = self.get(key)
        self._known.pop(key, None)
        return found
