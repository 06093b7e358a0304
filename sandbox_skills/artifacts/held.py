"""What worker threads use while its owner may give it up at any moment.

A cancelled task leaves its thread at work, and the event loop cannot wait for it. So whoever is the last to let go,
owner or thread, ends the thing.
"""

from __future__ import annotations

import errno
import threading
from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator


class Held(ABC):
    """Base of a file that is held open. Threads use it one at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._given_up = False

    def close(self) -> None:
        """Ends it now, or where a thread is at work as soon as that is done; then nothing uses it again."""
        self._given_up = True
        self._end_if_unused()

    @contextmanager
    def _in_use(self) -> Generator[None]:
        try:
            with self._lock:
                if self._given_up:
                    raise OSError(errno.EBADF, "it was closed")
                yield
        finally:
            self._end_if_unused()

    def _end_if_unused(self) -> None:
        # The flag is set before the lock is tried, and looked at after it was released: one of both sides gets here.
        if self._given_up and self._lock.acquire(blocking=False):
            try:
                self._end()
            finally:
                self._lock.release()

    @abstractmethod
    def _end(self) -> None:
        """Lets go of what is held; called more than once."""
