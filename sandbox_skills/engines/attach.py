"""Docker's attach as a raw HTTP upgrade, read by asyncio.

docker-py's `attach_socket` lost bytes that were there at once in 21 of 50 tries (measured on Docker 20.10): it reads
the head of the answer through a buffered reader and hands out the socket below it. So the few lines of HTTP are here.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox_skills.engines.channel import Receiver, StreamProtocol
from sandbox_skills.errors import EngineUnavailableError, SandboxLostError

if TYPE_CHECKING:
    import ssl

    from sandbox_skills.engines.channel import Channel

MUX_HEADER = struct.Struct("!BxxxI")
"""Docker's frame: 1 stdout, 2 stderr; three zero bytes; length."""

STDOUT, STDERR = 1, 2

MAX_HEAD = 16 * 1024
"""Longest head of an HTTP answer we read; Docker's has about 120 bytes, a proxy's a few KiB."""

MAX_MUX_FRAME = 1024 * 1024
"""Longest frame accepted: Docker copies through 32 KiB, so more is not Docker speaking."""

STDERR_TAIL = 8 * 1024
"""How much of the runner's own stderr is kept for the message of a lost box."""

CONNECT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class DaemonAddress:
    """Where the daemon listens: a socket path, or host and port with or without TLS."""

    path: str = ""
    host: str = ""
    port: int = 0
    tls: ssl.SSLContext | None = None


class Demultiplexer:
    """Takes the HTTP answer and then Docker's frames; gives stdout to the receiver, keeps a tail of stderr."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._head: bytearray | None = bytearray()
        self._header = bytearray()
        self._stream = 0
        self._left = 0
        self._stderr: deque[bytes] = deque(maxlen=64)
        self.upgraded: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def consume(self, data: memoryview) -> None:
        """Takes the next bytes; a breach of HTTP or of Docker's framing ends the channel through the receiver."""
        if self._head is not None:
            data = self._consume_head(self._head, data)
        while data:
            if not self._left:
                data = self._consume_header(data)
                continue
            part, data = data[: self._left], data[self._left :]
            self._left -= len(part)
            if self._stream == STDOUT:
                self._receiver.received(part)
            else:
                self._stderr.append(bytes(part[-STDERR_TAIL:]))

    @property
    def stderr_tail(self) -> str:
        """The last words of the runner, for a message."""
        return b"".join(self._stderr)[-STDERR_TAIL:].decode(errors="backslashreplace").strip()

    def lost(self, reason: str) -> None:
        if not self.upgraded.done():
            self.upgraded.set_exception(SandboxLostError(f"attach failed: {reason}"))
        tail = self.stderr_tail
        self._receiver.lost(f"{reason}; the runner said: {tail}" if tail else reason)

    def _consume_head(self, head: bytearray, data: memoryview) -> memoryview:
        before = len(head)
        head += data
        end = head.find(b"\r\n\r\n")
        if end < 0:
            if len(head) > MAX_HEAD:
                self._refuse("the daemon's answer has no end")
            return memoryview(b"")
        self._head = None
        status = bytes(head[: head.find(b"\r\n")])
        if b" 101 " not in status + b" " and b" 200 " not in status + b" ":
            self._refuse(f"the daemon refused to attach: {status.decode(errors='replace')}")
            return memoryview(b"")
        if not self.upgraded.done():
            self.upgraded.set_result(None)
        return data[end + 4 - before :]

    def _consume_header(self, data: memoryview) -> memoryview:
        take = MUX_HEADER.size - len(self._header)
        self._header += data[:take]
        if len(self._header) == MUX_HEADER.size:
            self._stream, self._left = MUX_HEADER.unpack(self._header)
            self._header.clear()
            if self._stream not in {STDOUT, STDERR} or self._left > MAX_MUX_FRAME:
                self._left = 0
                self._refuse("the stream is not framed as Docker frames it")
                return memoryview(b"")
        return data[take:]

    def _refuse(self, reason: str) -> None:
        if not self.upgraded.done():
            self.upgraded.set_exception(SandboxLostError(reason))
        self._receiver.lost(reason)


async def attach(address: DaemonAddress, version: str, container: str, receiver: Receiver) -> Channel:
    """Returns the channel to a container that was created with OpenStdin and has not been started.

    Raises EngineUnavailableError when the daemon cannot be reached, SandboxLostError when it refuses.
    """
    demultiplexer = Demultiplexer(receiver)
    loop = asyncio.get_running_loop()

    def protocol() -> StreamProtocol:
        return StreamProtocol(demultiplexer.consume, demultiplexer.lost)

    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            if address.path:
                _, channel = await loop.create_unix_connection(protocol, address.path)
            else:
                _, channel = await loop.create_connection(
                    protocol, address.host, address.port, ssl=address.tls
                )
    except (OSError, TimeoutError) as error:
        raise EngineUnavailableError(f"cannot connect to the Docker daemon: {error}") from error
    target = f"/v{version}/containers/{container}/attach?stream=1&stdin=1&stdout=1&stderr=1"
    channel.write(
        f"POST {target} HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
        "Content-Length: 0\r\n\r\n".encode()
    )
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await demultiplexer.upgraded
    except BaseException:
        channel.close()
        raise
    return channel
