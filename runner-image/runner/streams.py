"""What a program reads and writes, as far as its pipes and its limits take it."""

from __future__ import annotations

import fcntl
import os

from .lean import deque, suppress
from .protocol import STDIN_WINDOW
from .refusals import BrokenChannelError

STDIN_STEP = STDIN_WINDOW // 4
"""Bytes of standard input that are granted at once: four messages for each window, and none for a short input."""

PIPE_BYTES = 1024 * 1024
"""Pipe size of a program that floods: what an unprivileged process may ask for, a sixteenth of the wake-ups."""


class Stdin:
    """What a program gets to read: queued, and written as far as its pipe takes it.

    The host may send what the window holds, and more as the program takes it.
    """

    def __init__(self, descriptor: int | None) -> None:
        self.descriptor = descriptor
        self.done = descriptor is None
        self.broken = False
        self._queue: deque[memoryview] = deque()
        self._ending = False
        self._window = STDIN_WINDOW
        self._taken = 0

    @property
    def waiting(self) -> bool:
        """Whether something is queued."""
        return bool(self._queue)

    def feed(self, data: bytes) -> None:
        """Adds to the queue, unless nobody reads it any more; raises BrokenChannelError for more than was granted."""
        if not data or self.done or self._ending:
            return
        if len(data) > self._window:
            raise BrokenChannelError("more STDIN than was granted")
        self._window -= len(data)
        self._queue.append(memoryview(data))

    def end(self) -> None:
        """Makes the program see the end of its input after what is queued."""
        self._ending = True

    def flush(self) -> None:
        """Writes what the pipe takes now; `done` tells that nothing will follow, `broken` that nobody reads it."""
        if self.descriptor is None or self.done:
            return
        try:
            while self._queue:
                self._advance(os.write(self.descriptor, self._queue[0]))
        except BlockingIOError:
            return
        except OSError:  # the program has closed its end, as `head` does
            self._queue.clear()
            self.broken = self.done = True
        self.done = self.done or self._ending

    def _advance(self, written: int) -> None:
        first = self._queue.popleft()
        self._taken += written
        if written < len(first):
            self._queue.appendleft(first[written:])

    def grant(self) -> int:
        """Returns how many bytes more the host may send; 0 until a message is worth it, or when it has sent all."""
        if self._ending or self._taken < STDIN_STEP:
            return 0
        granted, self._taken = self._taken, 0
        self._window += granted
        return granted

    def close(self) -> None:
        """Closes the pipe at once."""
        if self.descriptor is not None:
            os.close(self.descriptor)
        self.descriptor = None
        self.done = True
        self._queue.clear()


class Keyboard(Stdin):
    """What is typed at a terminal. Its end is a character, and the terminal stays."""

    END_OF_FILE = b"\x04"
    """^D, unless the program chose another; within a line it only hands over what was typed so far."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        self._within_line = False

    def feed(self, data: bytes) -> None:
        super().feed(data)
        if data:
            self._within_line = not data.endswith((b"\n", b"\r"))

    def end(self) -> None:
        if not self._ending and not self.done:
            self._queue.append(memoryview(self.END_OF_FILE * (2 if self._within_line else 1)))
        super().end()


class Stream:
    """One output of a program: the first `limit` bytes go to the host, the rest is counted."""

    def __init__(self, kind: int, descriptor: int, limit: int) -> None:
        self.kind = kind
        self.descriptor = descriptor
        self.total = 0
        self.ended = False
        self._left = limit
        self._widened = False

    def read(self, buffer: bytearray) -> int:
        """Reads once; returns the count, 0 where there is nothing now or, with `ended`, any more."""
        if self.ended:
            return 0
        try:
            count = os.readv(self.descriptor, [buffer])
        except BlockingIOError:
            return 0
        except OSError:  # a terminal that was hung up
            count = 0
        self.ended = not count
        self.total += count
        if self.total > PIPE_BYTES and not self._widened:
            self._widened = True
            with suppress(OSError):
                fcntl.fcntl(self.descriptor, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        return count

    def share(self, count: int) -> int:
        """Takes up to `count` bytes off what may still be sent; returns how many."""
        taken = min(count, self._left)
        self._left -= taken
        return taken
