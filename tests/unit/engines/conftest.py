"""Both ends of a runner's channel: the client under test, and a box that says whatever a test tells it to."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_skills.engines.channel import StreamProtocol
from sandbox_skills.engines.classify import Death
from sandbox_skills.engines.client import RunnerClient
from sandbox_skills.engines.wire import HEADER, PROTOCOL, Kind, encode
from sandbox_skills.spec import SandboxId

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping


class Double:
    """A box of our making: reads the host's frames, and sends what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def heard(self, kind: Kind) -> int:
        """Returns the ref of the next frame of that kind; others are dropped."""
        while True:
            number, ref, length = HEADER.unpack(await self._reader.readexactly(HEADER.size))
            await self._reader.readexactly(length)
            if number == kind:
                return int(ref)

    async def listen(self) -> None:
        """Reads all that comes and says nothing."""
        while await self._reader.read(1 << 20):
            pass

    def say(self, kind: Kind, ref: int, payload: bytes | Mapping[str, Any] = b"") -> None:
        self.raw(encode(kind, ref, payload))

    def raw(self, data: bytes) -> None:
        self._writer.write(data)

    async def flood(self, data: bytes) -> None:
        """Sends the same bytes for as long as the host takes them."""
        try:
            while True:
                self.raw(data)
                await self._writer.drain()
        except ConnectionError:
            pass

    def hello(self, **body: object) -> None:
        self.say(Kind.HELLO, 0, {"protocol": PROTOCOL, **body})

    def hang_up(self) -> None:
        self._writer.close()


@asynccontextmanager
async def client_on(
    sock: socket.socket, *, death: Death, concurrent_runs: int = 1
) -> AsyncGenerator[RunnerClient]:
    """Yields a client of the runner at the other end of `sock`."""

    async def post_mortem() -> Death:
        return death

    client = RunnerClient(SandboxId("box"), post_mortem=post_mortem, concurrent_runs=concurrent_runs)
    _, channel = await asyncio.get_running_loop().create_connection(
        lambda: StreamProtocol(client.link.received, client.link.lost), sock=sock
    )
    client.link.connect(channel)
    try:
        yield client
    finally:
        client.close()
        await asyncio.sleep(0)


@pytest.fixture
def death() -> Death:
    """What the daemon says of a box that is gone."""
    return Death(oom=False, exit_code=None)


@pytest.fixture
async def pair(anyio_backend: object, death: Death) -> AsyncIterator[tuple[RunnerClient, Double]]:
    """A client and its double; no HELLO has been said."""
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=theirs)
    async with client_on(ours, death=death) as client:
        yield client, Double(reader, writer)
    writer.close()


@pytest.fixture
def client(pair: tuple[RunnerClient, Double]) -> RunnerClient:
    return pair[0]


@pytest.fixture
def double(pair: tuple[RunnerClient, Double]) -> Double:
    return pair[1]
