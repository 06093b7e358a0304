"""What belongs to a key, such as its lock, and is there only as long as somebody uses it: keys come and go for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class WhileUsed(Generic[T]):
    """One thing for each key, made when it is asked for, and forgotten when nobody has it any more. Of one thread."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: WeakValueDictionary[str, T] = WeakValueDictionary()

    def __len__(self) -> int:
        """How many are in use."""
        return len(self._made)

    def of(self, key: str) -> T:
        """Returns what belongs to a key: the same for all who have it. `async with` has a lock until it is left."""
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = self._make()
        return made
