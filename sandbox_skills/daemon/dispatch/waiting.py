"""Who of this process waits for what, by a key that is known as long as somebody waits."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Generator

T = TypeVar("T")


class Waiting(Generic[T]):
    """What is told to those who wait, such as an event or a future, for each key. Of one event loop."""

    def __init__(self) -> None:
        self._of: dict[str, set[T]] = {}

    def of(self, key: str) -> Collection[T]:
        """Returns what is held for a key."""
        return self._of.get(key, ())

    @contextmanager
    def held(self, key: str, one: T) -> Generator[T]:
        """Holds one more for a key while the block lasts."""
        held = self._of.setdefault(key, set())
        held.add(one)
        try:
            yield one
        finally:
            held.discard(one)
            if not held and self._of.get(key) is held:
                del self._of[key]
