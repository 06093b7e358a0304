"""A unix socket as the channel of a box on this machine: the frames of the attached stream, without the daemon between.

The host listens before the box starts, in a directory that this box alone has. The runner connects first of all, when
nothing runs in the box that is not trusted, and the kernel tells whose uid it has. Then listener, name and directory
are gone: nobody can connect any more, and there is nothing to clean. A runner that cannot connect (its kernel may be
another machine's) speaks over its attached stream, and the caller offers no more sockets.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox_skills.directories import make_private, owned_directory, sweep_owned
from sandbox_skills.engines.channel import StreamProtocol
from sandbox_skills.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from sandbox_skills.engines.channel import Channel
    from sandbox_skills.engines.link import Link

SOCKET_NAME = "channel"
"""What the socket is called in its directory."""

PREFIX = "engine-"
"""What the directory of an engine's sockets begins with."""

SEARCHABLE = 0o711
"""The box's uid has to reach the socket in the directory; what is above it on the host is for its owner alone."""

CONNECTABLE = 0o666

CREDENTIALS = struct.Struct("3i")
"""Linux's `struct ucred`: pid, uid, gid."""

LAST_WORDS_SECONDS = 1.0
"""How long after its socket the attached stream may end, which tells why: it took 40 ms (measured)."""


@dataclass(frozen=True, slots=True)
class SocketOffer:
    """A listening socket, and the directory that is mounted into the box it is for."""

    directory: Path
    listener: socket.socket

    async def taken(self, uid: int) -> socket.socket:
        """Returns the connection of the first who has that uid, and withdraws the offer."""
        loop = asyncio.get_running_loop()
        while True:
            connection, _ = await loop.sock_accept(self.listener)
            if peer_uid(connection) == uid:
                self.withdraw()
                return connection
            connection.close()

    def withdraw(self) -> None:
        """Removes the socket and its directory. May be called again."""
        self.listener.close()
        with suppress(FileNotFoundError):
            (self.directory / SOCKET_NAME).unlink()
        with suppress(FileNotFoundError):
            self.directory.rmdir()


@contextmanager
def offered(directory: Path) -> Generator[SocketOffer]:
    """Makes `directory` and listens in it; leaving withdraws what was not taken. Raises EngineError."""
    try:
        offer = _offer(directory)
    except OSError as error:
        raise EngineError(f"a socket for a sandbox cannot be made in {directory}: {error}") from error
    try:
        yield offer
    finally:
        offer.withdraw()


def _offer(directory: Path) -> SocketOffer:
    directory.mkdir()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    offer = SocketOffer(directory, listener)
    try:
        directory.chmod(SEARCHABLE)
        listener.setblocking(False)
        with _short(directory, SOCKET_NAME) as path:
            listener.bind(path)
        (directory / SOCKET_NAME).chmod(CONNECTABLE)
        listener.listen(1)
    except BaseException:
        offer.withdraw()
        raise
    return offer


@contextmanager
def _short(directory: Path, name: str) -> Generator[str]:
    """Gives a name for a file of the directory that is short enough for a socket, which has room for 107 bytes."""
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)


def peer_uid(connection: socket.socket) -> int:
    """Returns whose process is at the other end, as the kernel saw it connect."""
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    _, uid, _ = CREDENTIALS.unpack(data)
    return int(uid)


class SocketPlace:
    """Where the boxes of one engine find their sockets; `usable` until one of them could not connect.

    Its directory is locked while it is open, so that `sweep` knows the ones of processes that died.
    """

    def __init__(self, data_dir: Path, *, usable: bool = True) -> None:
        self.usable = usable
        self._parent = _place(data_dir)
        self._stack = ExitStack()
        self._directory: Path | None = None

    @contextmanager
    def offered(self, name: str) -> Generator[SocketOffer | None]:
        """Offers a socket to the box of that name; None where none is usable. Raises EngineError."""
        if not self.usable:
            yield None
            return
        with offered(self._opened() / name) as offer:
            yield offer

    def _opened(self) -> Path:
        if self._directory is None:
            try:
                make_private(self._parent)
                self._directory = self._stack.enter_context(owned_directory(self._parent, PREFIX))
            except OSError as error:
                raise EngineError(
                    f"no directory for sockets can be made in {self._parent}: {error}"
                ) from error
        return self._directory

    def close(self) -> None:
        """Removes the directory. May be called again; the place can be used again."""
        self._directory = None
        self._stack.close()


def sweep(data_dir: Path) -> None:
    """Removes the sockets of processes that died between making one and its box's connecting to it."""
    sweep_owned(_place(data_dir), PREFIX)


def _place(data_dir: Path) -> Path:
    return data_dir / "sockets"


class Standby:
    """Receiver of an attached stream beside a socket: the link's, until a socket has taken its place.

    From then on it only tells of the end, with the runner's last words; what else came would be no frames of ours.
    """

    def __init__(self, link: Link) -> None:
        self.relieved = False
        self._link = link

    def received(self, data: memoryview) -> None:
        if not self.relieved:
            self._link.received(data)

    def lost(self, reason: str) -> None:
        self._link.lost(reason)


class _Both:
    """Writes to the socket; closes the attached stream with it."""

    def __init__(self, socket_side: Channel, attached: Channel) -> None:
        self._attached = attached
        self.write = socket_side.write
        self.drain = socket_side.drain
        self.rest = socket_side.rest
        self._close = socket_side.close

    def close(self) -> None:
        self._close()
        self._attached.close()


async def take_over(offer: SocketOffer, uid: int, link: Link, standby: Standby, attached: Channel) -> None:
    """Waits for the box to connect, and moves the link from its attached stream to the socket."""
    loop = asyncio.get_running_loop()

    def lost(reason: str) -> None:
        if link.alive:
            loop.call_later(LAST_WORDS_SECONDS, link.lost, reason)

    connection = await offer.taken(uid)
    standby.relieved = True
    try:
        _, channel = await loop.connect_accepted_socket(
            lambda: StreamProtocol(link.received, lost), connection
        )
    except BaseException:
        connection.close()
        raise
    link.connect(_Both(channel, attached))
