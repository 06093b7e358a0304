"""Standard input on its way to a program: never more ahead of it than the box has room for."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from sandbox_skills.engines.wire import MAX_DATA, STDIN_WINDOW, Kind
from sandbox_skills.errors import RunnerProtocolError

if TYPE_CHECKING:
    from typing import Protocol

    class Sender(Protocol):
        """Sends a frame of one run."""

        def __call__(self, kind: Kind, data: bytes = b"", /) -> None: ...


class Stdin:
    """Queues input, and sends it as far as the box's credit goes. Never blocks; `drained` is how to wait."""

    def __init__(self, send: Sender) -> None:
        self._send = send
        self._queue: deque[memoryview] = deque()
        self._window = STDIN_WINDOW
        self._closing = False
        self._drained: asyncio.Event | None = None  # most programs are given nothing
        self._open = True
        self._refused = False

    @property
    def accepts(self) -> bool:
        """Whether input that is fed now goes to the program."""
        return self._open and not self._closing

    def feed(self, data: bytes) -> None:
        """Queues input of any length; drops it when the input was closed."""
        if data and self.accepts:
            self._queue.append(memoryview(data))
            self._pump()

    def close(self) -> None:
        """Ends the input behind what is queued."""
        if self.accepts:
            self._closing = True
            self._pump()

    def grant(self, count: object) -> None:
        """Lets as many bytes more be sent; raises RunnerProtocolError for more than were taken."""
        if (
            isinstance(count, bool)
            or not isinstance(count, int)
            or not 0 < count <= STDIN_WINDOW - self._window
        ):
            raise RunnerProtocolError("the box grants input that it cannot have taken")
        self._window += count
        self._pump()

    def refused(self) -> None:
        """Takes the box's word that the program reads no more; raises RunnerProtocolError for a second one."""
        if self._refused:
            raise RunnerProtocolError("the box closes an input twice")
        self._refused = True
        self.drop()

    def drop(self) -> None:
        """Drops what is queued, and all that follows."""
        self._open = False
        self._queue.clear()
        self._told()

    async def drained(self) -> None:
        """Returns once everything queued was sent, or dropped."""
        while self._queue:
            if self._drained is None:
                self._drained = asyncio.Event()
            await self._drained.wait()

    def _told(self) -> None:
        """Wakes whoever waits for the queue."""
        if self._drained is not None:
            self._drained.set()
            self._drained = None

    def _pump(self) -> None:
        while self._queue and self._window:
            data = self._queue.popleft()
            count = min(len(data), self._window, MAX_DATA)
            if count < len(data):
                self._queue.appendleft(data[count:])
            self._window -= count
            self._send(Kind.STDIN, bytes(data[:count]))
        if self._queue:
            return
        self._told()
        if self._closing and self._open:
            self._open = False
            self._send(Kind.CLOSE_STDIN)
