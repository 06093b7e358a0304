"""A socket before the daemon's own: it dies, or is slow, as a test wants the daemon to be for its clients."""

from __future__ import annotations

import math
import re
import socket
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from sandbox_skills.engines.docker_client import address
from tests.docker_host import connection

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


class Relay:
    """Passes bytes on. When it is cut, the daemon has died to its clients.

    `slow` has requests, by a pattern of how they begin, and the seconds until they reach the daemon.
    """

    def __init__(self, place: Path, *, bytes_until_cut: float, slow: Mapping[bytes, float]) -> None:
        self.place = place
        self.held = threading.Event()
        self._left = bytes_until_cut
        self._slow = slow
        self._closing = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(place))
        self._listener.listen()
        self._ends = [self._listener]
        self._threads = [threading.Thread(target=self._serve)]
        self._threads[0].start()

    def cut(self) -> None:
        """Ends every connection; there is no new one."""
        self._closing.set()
        self.place.unlink(missing_ok=True)
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Cuts, and waits until nothing of it is left."""
        self.cut()
        for thread in self._threads:
            thread.join()
        for end in self._ends:
            end.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                server = socket.socket(socket.AF_UNIX)
                server.connect(address(connection()).path)
                self._ends += [client, server]
                if self._closing.is_set():  # it came while this was cut
                    self.cut()
                for pair in ((client, server), (server, client)):
                    self._threads.append(threading.Thread(target=self._pump, args=pair))
                    self._threads[-1].start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._hold(data)
                self._left -= len(data)
                if self._left < 0:
                    self.cut()
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def _hold(self, data: bytes) -> None:
        for pattern, seconds in self._slow.items():
            if re.match(pattern, data):
                self.held.set()
                if self._closing.wait(seconds):
                    raise ConnectionAbortedError


@contextmanager
def relay(
    place: Path, *, bytes_until_cut: float = math.inf, slow: Mapping[bytes, float] | None = None
) -> Iterator[Relay]:
    """A relay at a path of its own, while the block lasts."""
    relay = Relay(place, bytes_until_cut=bytes_until_cut, slow=slow or {})
    try:
        yield relay
    finally:
        relay.close()
