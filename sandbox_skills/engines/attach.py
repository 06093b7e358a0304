"""Docker's attach as a raw HTTP upgrade, read by asyncio.

docker-py's `attach_socket` lost bytes that were there at once in 21 of 50 tries (measured on Docker 20.10): it reads
the head of the answer through a buffered reader and hands out the socket below it. So the few lines of HTTP are here.
"""

from __future__ import annotations

import asyncio
import json
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox_skills.engines.channel import Receiver, StreamProtocol
from sandbox_skills.errors import EngineUnavailableError, SandboxLostError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from sandbox_skills.engines.channel import Channel

MUX_HEADER = struct.Struct("!BxxxI")
"""Docker's frame: 1 stdout, 2 stderr; three zero bytes; length."""

STDOUT, STDERR = 1, 2

HEAD_END = b"\r\n\r\n"

UPGRADED = {b"101", b"200"}
"""What Docker answers before it hands over the stream: 200 to clients that ask for no upgrade, as old proxies do."""

MAX_HEAD = 16 * 1024
"""Longest head of an HTTP answer we read; Docker's has about 120 bytes, a proxy's a few KiB."""

MAX_MUX_FRAME = 1024 * 1024
"""Longest frame accepted: Docker copies through 32 KiB, so more is not Docker speaking."""

STDERR_TAIL = 8 * 1024
"""How much of the runner's own stderr is kept for the message of a lost box."""

MAX_EXPLANATION = 300
"""Longest text of a daemon's refusal that our message quotes."""

CONNECT_SECONDS = 10.0
"""Longest wait for the connection, and again for the answer: the daemon does nothing but find the container."""


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
        self._take: Callable[[memoryview], memoryview] = self._take_head
        self._head = bytearray()
        self._stream = 0
        self._left = 0
        self._stderr = bytearray()
        self._ended = False
        self.upgraded: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def consume(self, data: memoryview) -> None:
        """Takes the next bytes; a breach of HTTP or of Docker's framing ends the channel through the receiver."""
        while data:
            data = self._take(data)

    @property
    def stderr_tail(self) -> str:
        """The last words of the runner, for a message."""
        return self._stderr.decode(errors="backslashreplace").strip()

    def lost(self, reason: str) -> None:
        """Ends the stream: tells the receiver, once, and whoever waits for the upgrade."""
        if self._ended:
            return
        self._ended = True
        self._take = _drop
        tail = self.stderr_tail
        reason = f"{reason}; the runner said: {tail}" if tail else reason
        if not self.upgraded.done():
            self.upgraded.set_exception(SandboxLostError(f"cannot attach to the sandbox: {reason}"))
            self.upgraded.exception()  # nobody looks at it where the attach was cancelled
        self._receiver.lost(reason)

    def _take_head(self, data: memoryview) -> memoryview:
        before = len(self._head)
        self._head += data
        end = self._head.find(HEAD_END)
        if end < 0:
            if len(self._head) > MAX_HEAD:
                self.lost("the daemon's answer has no end")
            return data[:0]
        head, body = bytes(self._head[:end]), bytes(self._head[end + len(HEAD_END) :])
        self._head.clear()
        refused = _refusal(head, body)
        if refused is not None:
            self.lost(refused)
            return data[:0]
        self._take = self._take_header
        if not self.upgraded.done():  # whoever waited was cancelled
            self.upgraded.set_result(None)
        return data[end + len(HEAD_END) - before :]

    def _take_header(self, data: memoryview) -> memoryview:
        missing = MUX_HEADER.size - len(self._head)
        self._head += data[:missing]
        if len(self._head) == MUX_HEADER.size:
            self._stream, self._left = MUX_HEADER.unpack(self._head)
            self._head.clear()
            if self._stream not in {STDOUT, STDERR} or self._left > MAX_MUX_FRAME:
                self.lost("the stream is not framed as Docker frames it")
            elif self._left:
                self._take = self._take_payload
        return data[missing:]

    def _take_payload(self, data: memoryview) -> memoryview:
        part, rest = data[: self._left], data[self._left :]
        self._left -= len(part)
        if not self._left:
            self._take = self._take_header
        if self._stream == STDOUT:
            self._receiver.received(part)
        else:
            self._stderr += part
            del self._stderr[:-STDERR_TAIL]
        return rest


def _drop(data: memoryview) -> memoryview:
    return data[:0]


def _refusal(head: bytes, body: bytes) -> str | None:
    """Returns why the daemon does not hand over the stream, None where it does."""
    line = head.split(b"\r\n", 1)[0]
    words = line.split(b" ", 2)
    if words[0].startswith(b"HTTP/") and len(words) > 1 and words[1] in UPGRADED:
        return None
    return f"the daemon answered {line.decode(errors='replace')[:MAX_EXPLANATION]!r}{_explanation(body)}"


def _explanation(body: bytes) -> str:
    """Returns the daemon's own message, as far as it came along with the head."""
    try:
        message = json.loads(body)["message"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""
    return f": {str(message)[:MAX_EXPLANATION]}"


async def attach(address: DaemonAddress, version: str, container: str, receiver: Receiver) -> Channel:
    """Returns the channel to a container that was created with OpenStdin and has not been started.

    Raises EngineUnavailableError when the daemon cannot be reached, SandboxLostError when it refuses.
    """
    demultiplexer = Demultiplexer(receiver)
    channel = await _connected(address, demultiplexer)
    target = f"/v{version}/containers/{container}/attach?stream=1&stdin=1&stdout=1&stderr=1"
    channel.write(
        f"POST {target} HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
        "Content-Length: 0\r\n\r\n".encode()
    )
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await demultiplexer.upgraded
    except TimeoutError as error:
        channel.close()
        raise SandboxLostError(f"the daemon did not attach in {CONNECT_SECONDS:g} s") from error
    except BaseException:
        channel.close()
        raise
    return channel


async def _connected(address: DaemonAddress, demultiplexer: Demultiplexer) -> StreamProtocol:
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
    return channel
