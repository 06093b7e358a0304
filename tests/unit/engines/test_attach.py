"""The raw upgrade, over a unix socket with a daemon that says what a test tells it to."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.engines import attach as attach_module
from sandbox_skills.engines.attach import (
    MAX_HEAD,
    MAX_MUX_FRAME,
    MUX_HEADER,
    STDERR_TAIL,
    DaemonAddress,
    Demultiplexer,
    attach,
)
from sandbox_skills.errors import EngineUnavailableError, SandboxLostError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable
    from pathlib import Path

    Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

pytestmark = pytest.mark.anyio

HEAD = (
    b"HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\nConnection: Upgrade\r\n\r\n"
)

PATIENCE = 5.0


class Receiver:
    """Keeps what comes."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.reasons: list[str] = []
        self.ended = asyncio.Event()

    def received(self, data: memoryview) -> None:
        assert not self.reasons, "nothing comes after the end"
        self.data += data

    def lost(self, reason: str) -> None:
        self.reasons.append(reason)
        self.ended.set()


def mux(stream: int, data: bytes) -> bytes:
    return MUX_HEADER.pack(stream, len(data)) + data


@asynccontextmanager
async def daemon(path: Path, answer: Answer) -> AsyncGenerator[DaemonAddress]:
    """A daemon that reads the head of a request and then does as it is told."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(
                b"POST /v1.41/containers/box/attach?stream=1&stdin=1&stdout=1&stderr=1 HTTP/1.1\r\n"
            )
            await answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_unix_server(serve, path)
    try:
        yield DaemonAddress(path=str(path))
    finally:
        server.close()
        await server.wait_closed()


def says(*parts: bytes, stays: bool = False) -> Answer:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.01)
        if stays:
            await reader.read()

    return answer


async def test_an_answer_that_comes_after_the_cancel_is_no_error() -> None:
    receiver = Receiver()
    demultiplexer = Demultiplexer(receiver)
    demultiplexer.upgraded.cancel()
    demultiplexer.consume(memoryview(HEAD + mux(1, b"late")))
    assert (bytes(receiver.data), receiver.reasons) == (b"late", [])


class TestDemultiplexer:
    @given(
        st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=40)), max_size=6),
        st.lists(st.integers(0, 400), max_size=10),
    )
    async def test_every_split_of_head_and_frames_is_read_the_same(
        self, frames: list[tuple[int, bytes]], cuts: list[int]
    ) -> None:
        receiver = Receiver()
        demultiplexer = Demultiplexer(receiver)
        stream = HEAD + b"".join(mux(*frame) for frame in frames)
        ends = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
        for start, end in pairwise(ends):
            demultiplexer.consume(memoryview(stream)[start:end])
        assert demultiplexer.upgraded.done()
        assert bytes(receiver.data) == b"".join(data for kind, data in frames if kind == 1)
        assert demultiplexer.stderr_tail == (
            b"".join(data for kind, data in frames if kind == 2).decode(errors="backslashreplace").strip()
        )
        assert receiver.reasons == []

    async def test_byte_by_byte_is_enough(self) -> None:
        receiver = Receiver()
        demultiplexer = Demultiplexer(receiver)
        for byte in HEAD + mux(1, b"abc") + mux(2, b"oh") + mux(1, b"") + mux(1, b"def"):
            demultiplexer.consume(memoryview(bytes([byte])))
        assert (bytes(receiver.data), demultiplexer.stderr_tail) == (b"abcdef", "oh")

    @pytest.mark.parametrize(
        "garbage", [MUX_HEADER.pack(0, 1), MUX_HEADER.pack(3, 1), MUX_HEADER.pack(1, MAX_MUX_FRAME + 1)]
    )
    async def test_frames_that_docker_does_not_send_end_the_stream(self, garbage: bytes) -> None:
        receiver = Receiver()
        demultiplexer = Demultiplexer(receiver)
        demultiplexer.consume(memoryview(HEAD + garbage + mux(1, b"after")))
        demultiplexer.consume(memoryview(mux(1, b"after")))
        demultiplexer.lost("again")
        assert receiver.reasons == ["the stream is not framed as Docker frames it"]
        assert receiver.data == b""

    async def test_a_flood_on_stderr_leaves_its_tail(self) -> None:
        receiver = Receiver()
        demultiplexer = Demultiplexer(receiver)
        demultiplexer.consume(memoryview(HEAD))
        for index in range(3000):
            demultiplexer.consume(memoryview(mux(2, b"line %d\n" % index)))
        assert demultiplexer.stderr_tail.endswith("line 2998\nline 2999")
        assert STDERR_TAIL - 10 < len(demultiplexer.stderr_tail) <= STDERR_TAIL
        demultiplexer.lost("the end")
        assert receiver.reasons[0].startswith("the end; the runner said: ")


class TestAttach:
    async def test_what_came_with_the_head_is_not_lost(self, tmp_path: Path) -> None:
        receiver = Receiver()
        async with daemon(tmp_path / "s", says(HEAD + mux(1, b"early") + mux(1, b"er"))) as address:
            await attach(address, "1.41", "box", receiver)
            await asyncio.wait_for(receiver.ended.wait(), PATIENCE)
        assert receiver.data == b"earlyer"
        assert receiver.reasons == ["the channel reached its end"]

    async def test_bytes_go_to_the_box(self, tmp_path: Path) -> None:
        heard: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(HEAD)
            heard.set_result(await reader.readexactly(5))

        async with daemon(tmp_path / "s", answer) as address:
            channel = await attach(address, "1.41", "box", Receiver())
            channel.write(b"hello")
            await channel.drain()
            assert await asyncio.wait_for(heard, PATIENCE) == b"hello"
            channel.close()

    @pytest.mark.parametrize(
        ("answer", "told"),
        [
            (b'HTTP/1.1 404 Not Found\r\n\r\n{"message":"No such container: box"}', "404.*No such container"),
            (b'HTTP/1.1 409 Conflict\r\n\r\n{"message":"is paused"}', "409.*is paused"),
            (b"HTTP/1.1 500 Internal Server Error\r\n\r\n<html>", "500 Internal"),
            (b"HTTP/1.1 500\r\n\r\n" + b"[" * 5000, "500"),
            (b"HTTP/1.1 1010 Odd\r\n\r\n", "1010"),
            (b"ICY 200 OK\r\n\r\n", "ICY"),
            (b"\r\n\r\n", "answered"),
            (b"x" * (MAX_HEAD + 1), "no end"),
            (b"", "reached its end"),
            (HEAD[:20], "reached its end"),
        ],
    )
    async def test_a_refusal_is_a_lost_sandbox_that_says_why(
        self, tmp_path: Path, answer: bytes, told: str
    ) -> None:
        receiver = Receiver()
        async with daemon(tmp_path / "s", says(answer)) as address:
            async with asyncio.timeout(PATIENCE):
                with pytest.raises(SandboxLostError, match=told) as caught:
                    await attach(address, "1.41", "box", receiver)
        assert len(receiver.reasons) == 1
        assert len(caught.value.message) < 1000

    async def test_an_endless_head_is_given_up(self, tmp_path: Path) -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                writer.write(b"X-Header: y\r\n" * 100)
                await writer.drain()

        async with daemon(tmp_path / "s", answer) as address:
            async with asyncio.timeout(PATIENCE):
                with pytest.raises(SandboxLostError, match="no end"):
                    await attach(address, "1.41", "box", Receiver())

    async def test_an_answer_that_never_comes_is_given_up(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(attach_module, "CONNECT_SECONDS", 0.1)
        async with daemon(tmp_path / "s", says(stays=True)) as address:
            with pytest.raises(SandboxLostError, match="did not attach"):
                await attach(address, "1.41", "box", Receiver())

    async def test_a_cancel_while_it_waits_ends_the_connection(self, tmp_path: Path) -> None:
        left = asyncio.Event()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            left.set()

        async with daemon(tmp_path / "s", answer) as address:
            task = asyncio.ensure_future(attach(address, "1.41", "box", Receiver()))
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.wait_for(left.wait(), PATIENCE)

    async def test_a_stream_that_breaks_tells_the_runners_last_words(self, tmp_path: Path) -> None:
        receiver = Receiver()
        async with daemon(tmp_path / "s", says(HEAD, mux(2, b"out of luck\n"))) as address:
            await attach(address, "1.41", "box", receiver)
            await asyncio.wait_for(receiver.ended.wait(), PATIENCE)
        assert receiver.reasons == ["the channel reached its end; the runner said: out of luck"]

    async def test_no_daemon_is_no_engine(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        for name in ("nothing", "file", "x" * 200):
            with pytest.raises(EngineUnavailableError):
                await attach(DaemonAddress(path=str(tmp_path / name)), "1.41", "box", Receiver())

    async def test_closing_twice_tells_once(self, tmp_path: Path) -> None:
        receiver = Receiver()
        async with daemon(tmp_path / "s", says(HEAD, stays=True)) as address:
            channel = await attach(address, "1.41", "box", receiver)
            channel.close()
            channel.close()
            channel.write(b"into the void")
            await channel.drain()
            await asyncio.sleep(0.05)
        assert receiver.reasons == ["the channel was closed"]
