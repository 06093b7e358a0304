from __future__ import annotations

import asyncio
import socket

import pytest

from sandbox_skills.engines.channel import StreamProtocol

pytestmark = pytest.mark.anyio


async def test_a_channel_that_has_ended_keeps_no_buffer() -> None:
    lost = asyncio.get_running_loop().create_future()
    taken: list[bytes] = []
    ours, theirs = socket.socketpair()
    with theirs:
        _, channel = await asyncio.get_running_loop().connect_accepted_socket(
            lambda: StreamProtocol(lambda data: taken.append(bytes(data)), lost.set_result), ours
        )
        assert channel.get_buffer(1).nbytes == StreamProtocol.BUFFER
        theirs.sendall(b"hello")
    assert await lost == "the channel reached its end"
    await asyncio.sleep(0)  # the loop says that the connection is gone one turn after its end
    assert (taken, channel.get_buffer(1).nbytes) == ([b"hello"], 0)
