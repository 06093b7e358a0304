"""The process `sandbox-skills serve`: one socket, one daemon, and signals that end both in good order."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import uvicorn

from sandbox_skills.daemon.api.app import create_app
from sandbox_skills.daemon.api.connections import Connection, TalkConnection
from sandbox_skills.daemon.ui.dashboard import add_dashboard
from sandbox_skills.daemon.working.daemon import first_key, opened_daemon
from sandbox_skills.engines.cancellation import finish
from sandbox_skills.errors import SettingsError
from sandbox_skills.spec import SIGNAL_BASE

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator

    from sandbox_skills.daemon.working.daemon import Daemon
    from sandbox_skills.settings import Settings

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""What supervisors, people and closed terminals send."""

GRACE_SECONDS = 3
"""For answers that are under way, and readers that never hang up by themselves, once every run is over."""

BACKLOG = 2048

UNREAD_SECONDS = 60.0
"""Longest in which a client takes not one byte of an answer that is too long for the buffers between us."""


async def serve(settings: Settings, announce: Callable[[str, str | None], None]) -> None:
    """Serves until a signal: the first lets runs end within `daemon.drain_seconds`, the second ends them at once.

    `announce` is told the address once it answers, and the first admin key where one was made. Raises SettingsError
    for an address that cannot be had, or that others reach while nobody has a key; DatabaseError.
    """
    chosen = settings.daemon
    with listening(chosen.host, chosen.port) as sock:
        async with opened_daemon(settings) as daemon:
            key = await _key(daemon, chosen.host)
            async with answering(daemon, sock), _signals() as told:
                announce(_address(chosen.host, sock), key)
                await told.first.wait()
                await _drained(daemon, told.second, chosen.drain_seconds)


async def _key(daemon: Daemon, host: str) -> str | None:
    """Returns the first key where one was made; nobody else than this machine may be around for that."""
    if host in LOOPBACK:
        return await first_key(daemon)
    if not await daemon.has_keys():
        raise SettingsError(
            f"nobody has a key yet, and others reach {host}",
            hint="start it once on 127.0.0.1, which shows the first admin key, or make one with `keys create`",
        )
    return None


async def _drained(daemon: Daemon, hurry: asyncio.Event, seconds: float) -> None:
    draining = asyncio.ensure_future(daemon.drain(seconds))
    hurrying = asyncio.ensure_future(hurry.wait())
    try:
        await asyncio.wait([draining, hurrying], return_when=asyncio.FIRST_COMPLETED)
    finally:
        hurrying.cancel()
        draining.cancel()
        await asyncio.wait([draining, hurrying])


class _Told:
    """What signals have said so far."""

    def __init__(self) -> None:
        self.first = asyncio.Event()
        self.second = asyncio.Event()

    def take(self, number: int) -> None:
        if self.second.is_set():
            os._exit(SIGNAL_BASE + number)  # whatever it waits for; the next start cleans up
        (self.second if self.first.is_set() else self.first).set()


@asynccontextmanager
async def _signals() -> AsyncGenerator[_Told]:
    """Hears signals while the block lasts; one that is ignored stays so."""
    loop, told = asyncio.get_running_loop(), _Told()
    before = {number: signal.getsignal(number) for number in ENDING}
    heard = [number for number, old in before.items() if old != signal.SIG_IGN]
    for number in heard:
        loop.add_signal_handler(number, told.take, number)
    try:
        yield told
    finally:
        for number in heard:
            loop.remove_signal_handler(number)
            signal.signal(number, before[number])


class _Server(uvicorn.Server):
    """The web server, which leaves signals to us."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


@asynccontextmanager
async def answering(daemon: Daemon, sock: socket.socket) -> AsyncGenerator[None]:
    """Answers requests while the block lasts."""
    app = create_app(daemon)
    add_dashboard(app, daemon)
    config = uvicorn.Config(
        app,
        # Named, as what it would choose goes by what else is installed.
        http=Connection,
        ws=TalkConnection,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    web = _Server(config)
    serving = asyncio.ensure_future(web.serve(sockets=[sock]))
    try:
        yield
    finally:
        web.should_exit = True
        await finish(_ended(serving))


async def _ended(serving: asyncio.Future[None]) -> None:
    await serving


@contextmanager
def listening(host: str, port: int) -> Generator[socket.socket]:
    """Gives a socket that listens; raises SettingsError."""
    with _bound(host, port) as sock:
        if sys.platform == "linux":  # its connections have it, too, for as long as one's window is closed
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(UNREAD_SECONDS * 1000))
        yield sock


def _bound(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except OSError as error:
        raise SettingsError(
            f"{host}:{port} cannot be served: {error.strerror}", hint="choose another --host or --port"
        ) from error


def _address(host: str, sock: socket.socket) -> str:
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{sock.getsockname()[1]}"
