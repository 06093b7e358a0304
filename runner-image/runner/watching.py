"""What the loop waits for."""

from __future__ import annotations

import select
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Watches:
    """Descriptors in epoll, each with the events that are of interest and who is called for them."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._callbacks: dict[int, Callable[[int], None]] = {}
        self._masks: dict[int, int] = {}

    def watch(self, descriptor: int, mask: int, callback: Callable[[int], None]) -> None:
        """Has `callback` called with the events of `mask`, from now on."""
        known = self._masks.get(descriptor)
        if known is None:
            self._epoll.register(descriptor, mask)
        elif known != mask:
            self._epoll.modify(descriptor, mask)
        self._masks[descriptor] = mask
        self._callbacks[descriptor] = callback

    def unwatch(self, descriptor: int | None) -> None:
        """Stops that, if there is anything to stop."""
        if descriptor is not None and self._masks.pop(descriptor, None) is not None:
            del self._callbacks[descriptor]
            self._epoll.unregister(descriptor)

    def forget(self, descriptor: int | None) -> None:
        """Stops that for a descriptor which is closed next: the kernel forgets it by itself."""
        if descriptor is not None and self._masks.pop(descriptor, None) is not None:
            del self._callbacks[descriptor]

    def turn(self, seconds: float) -> None:
        """Waits for events, and calls those who wait for them."""
        for descriptor, mask in self._epoll.poll(seconds):
            callback = self._callbacks.get(descriptor)
            if callback:
                callback(mask)
