"""Clients that say nothing, or say it a byte at a time: none of them holds a connection for ever."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.daemon import serve
from sandbox_skills.daemon.api import body_limits, connections
from sandbox_skills.daemon.api.front import Front
from tests.daemon_host import opened_host

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator
    from pathlib import Path

    from starlette.types import Message, Receive, Scope, Send

    from tests.daemon_host import Host

pytestmark = pytest.mark.anyio

SHORT = 0.2

GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    async with opened_host(tmp_path) as host:
        yield host


@asynccontextmanager
async def connected(host: Host) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    async with host.serving() as address:
        name, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(name, int(port))
        try:
            async with asyncio.timeout(15):
                yield reader, writer
        finally:
            writer.close()


def posted(length: int, *lines: str) -> bytes:
    head = ["POST /v1/runs HTTP/1.1", "Host: x", "Content-Type: application/json", *lines]
    return "\r\n".join([*head, f"Content-Length: {length}", "", ""]).encode()


@pytest.mark.parametrize("said", [b"", b"GET /healthz HTTP/1.1\r\nHos"])
async def test_a_head_that_does_not_come_ends_the_connection(
    host: Host, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", SHORT)
    async with connected(host) as (reader, writer):
        writer.write(said)
        assert await reader.read() == b""


async def test_so_does_a_second_one(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", SHORT)
    async with connected(host) as (reader, writer):
        writer.write(GET)
        assert b'{"status":"ok"}' in await reader.readuntil(b"}")
        writer.write(GET[:-2])
        assert await reader.read() == b""


async def test_who_has_asked_may_listen_for_as_long_as_it_takes(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", SHORT)
    monkeypatch.setattr(body_limits, "STALL_SECONDS", SHORT)
    key = await host.tenant("acme")
    order = b'{"skill":"greeter","command":"sleep 1; echo late"}'
    async with connected(host) as (reader, writer):
        for byte in posted(len(order), f"Authorization: Bearer {key}") + order:
            writer.write(bytes([byte]))
        answer = await reader.readuntil(b'"attempt":')  # 1 where a node had it at once
        await reader.readuntil(b"}")
        run_id = answer.partition(b'{"id":"')[2][:26].decode()
        head = f"GET /v1/runs/{run_id}/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n"
        writer.write(head.encode())
        assert b"exited" in await reader.readuntil(b"\r\n0\r\n\r\n")


async def test_a_body_that_stands_still_is_given_up_whoever_sent_it(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body_limits, "STALL_SECONDS", SHORT)
    async with connected(host) as (reader, writer):
        writer.write(posted(100) + b'{"skill":')
        answer = await reader.readuntil(b"}")
    assert answer.startswith(b"HTTP/1.1 408")
    assert b'"code":"request_stalled"' in answer


async def test_so_is_one_that_comes_a_byte_now_and_then(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_limits, "STALL_SECONDS", 5 * SHORT)
    async with connected(host) as (reader, writer):
        writer.write(posted(10_000))
        answer = asyncio.ensure_future(reader.readuntil(b"}"))
        while not answer.done():
            writer.write(b" ")
            await asyncio.wait([answer], timeout=SHORT / 2)
    assert answer.result().startswith(b"HTTP/1.1 408")


CHUNKED = posted(2).replace(b"Content-Length: 2", b"Transfer-Encoding: chunked")


@pytest.mark.parametrize(
    ("first", "then", "watched"),
    [
        (posted(2) + b"{}", b"", False),
        (CHUNKED + b"2\r\n{}\r\n0\r\n\r\n", b"", True),
        (posted(2), b"{}", True),
    ],
)
async def test_a_body_is_watched_unless_it_is_there_and_as_long_as_it_says(
    host: Host, monkeypatch: pytest.MonkeyPatch, first: bytes, then: bytes, *, watched: bool
) -> None:
    asked = asyncio.Event()
    plain = body_limits._Body.receive

    async def watching(body: body_limits._Body) -> Message:
        asked.set()
        return await plain(body)

    monkeypatch.setattr(body_limits._Body, "receive", watching)
    async with connected(host) as (reader, writer):
        writer.write(first)
        if then:
            await asked.wait()
            writer.write(then)
        assert b" 401 " in await reader.readuntil(b"}")
    assert asked.is_set() is watched


LONG = connections.MAX_HEAD


@pytest.mark.parametrize(
    "pieces",
    [
        [GET[:-2] + b"A: " + LONG * b"a" + b"\r\n\r\n"],
        [GET[:-2] + LONG // 2 * b"a:b\r\n" + b"\r\n"],
        [b"GET /healthz?" + LONG * b"a" + b" HTTP/1.1\r\nHost: x\r\n\r\n"],
        [GET[:-2] + b"A: ", *(LONG // 1024 + 1) * [1024 * b"a"]],
        [b"GET /", *(LONG // 1024 + 1) * [1024 * b"a"]],
    ],
)
async def test_a_head_without_end_is_refused(host: Host, pieces: list[bytes]) -> None:
    async with connected(host) as (reader, writer):
        for piece in pieces:
            writer.write(piece)
            await asyncio.sleep(0)
        answer = b""
        with suppress(ConnectionError):  # what is not read any more resets it, maybe before the answer is
            answer = await reader.read()
        assert answer[:13] in {b"", b"HTTP/1.1 400 "}


async def test_a_long_head_is_answered(host: Host) -> None:
    async with connected(host) as (reader, writer):
        writer.write(GET[:-2] + b"A: " + LONG // 2 * b"a")
        await asyncio.sleep(0.05)
        writer.write(b"\r\n\r\n" + GET)
        assert b'{"status":"ok"}' in await reader.readuntil(b"}")
        assert b'{"status":"ok"}' in await reader.readuntil(b"}")


@pytest.mark.parametrize("piece", [b"A: b\r\n", 1024 * b"a"])
async def test_what_comes_behind_a_body_ends_as_well(host: Host, piece: bytes) -> None:
    async with connected(host) as (reader, writer):
        writer.write(CHUNKED + b"2\r\n{}\r\n0\r\nA: b\r\n")
        with suppress(ConnectionError):
            for _ in range(2 * LONG // len(piece)):
                writer.write(piece)
                await writer.drain()
        with suppress(ConnectionError):
            await reader.read()


async def test_what_a_chunk_says_beside_its_size_ends_as_well(host: Host) -> None:
    async with connected(host) as (reader, writer):
        writer.write(CHUNKED + b"2;a=")
        with suppress(ConnectionError):
            for _ in range(2 * LONG // 1024):
                writer.write(1024 * b"b")
                await writer.drain()
        with suppress(ConnectionError):
            await reader.read()


async def test_a_header_behind_the_body_does_not_count(host: Host) -> None:
    key = await host.tenant("acme")
    order = b'{"skill":"greeter","command":"true"}'
    body = b"%x\r\n%b\r\n0\r\nX-API-Key: %b\r\n\r\n" % (len(order), order, key.encode())
    async with connected(host) as (reader, writer):
        writer.write(CHUNKED + body)
        assert b" 401 " in await reader.readuntil(b"}")


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /healthz HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", b"400"),
        (b"GET /healthz HTTP/1.0\r\n\r\n", b"200"),
        (posted(2, "Transfer-Encoding: chunked") + b"2\r\n{}\r\n0\r\n\r\n", b"400"),
        (posted(2, "Content-Length: 3") + b"{}}", b"400"),
        (posted(2).replace(b"Host: x", b"Host: x\r\n folded"), b"400"),
        (b"GET /healthz HTTP/1.1\r\nHost : x\r\n\r\n", b"400"),
        (b"GET /healthz\xff HTTP/1.1\r\nHost: x\r\n\r\n", b"400"),
        (b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n", b"400"),
        (b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", b"404"),
        (b"GET /healthz HTTP/1.1\nHost: x\n\n", b"400"),
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: \x00\r\n\r\n", b"400"),
        (CHUNKED.replace(b"chunked", b"gzip, chunked") + b"0\r\n\r\n", b"400"),
        (CHUNKED.replace(b"chunked", b",chunked") + b"0\r\n\r\n", b"400"),
        (CHUNKED.replace(b"chunked", b" Chunked ") + b"0\r\n\r\n", b"401"),
        (CHUNKED.replace(b"chunked", b"gzip\r\nTransfer-Encoding: chunked") + b"0\r\n\r\n", b"400"),
        (posted(1 << 40).replace(b"\r\n\r\n", b" \r\n\r\n"), b"413"),
        (posted(2, "Expect: 100-continue").replace(b"1.1", b"1.0") + b"{}", b"401"),
        (b"CONNECT /healthz HTTP/1.1\r\nHost: x\r\n\r\n", b"400"),
    ],
)
async def test_a_head_is_read_in_one_way_or_refused(host: Host, head: bytes, status: bytes) -> None:
    async with connected(host) as (reader, writer):
        writer.write(head)
        assert (await reader.readline()).split()[1] == status


UPGRADE = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AA")


async def test_what_is_to_become_another_protocol_is_answered_in_this_one(host: Host) -> None:
    wants = GET[:-2] + "\r\n".join([*UPGRADE, "", ""]).encode()
    async with connected(host) as (reader, writer):
        for said in (wants, GET, wants + GET, b""):
            writer.write(said)
            assert b'{"status":"ok"}' in await reader.readuntil(b"}")


@pytest.mark.parametrize("apart", [True, False])
async def test_its_body_is_its_body_and_no_request(host: Host, *, apart: bool) -> None:
    head = posted(len(GET), *UPGRADE)
    async with connected(host) as (reader, writer):
        for said in (head, GET) if apart else (head + GET,):
            writer.write(said)
            await asyncio.sleep(0.05)
        assert b" 422 " in await reader.readuntil(b"}")
        writer.write(b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b" 200 " not in await reader.readuntil(b" 404 ")


async def test_one_with_a_body_is_done(host: Host) -> None:
    key = await host.tenant("acme")
    order = b'{"skill":"greeter","command":"true"}'
    async with connected(host) as (reader, writer):
        writer.write(posted(len(order), f"Authorization: Bearer {key}", *UPGRADE) + order)
        assert b" 202 " in await reader.readuntil(b"}")


def held_answers(monkeypatch: pytest.MonkeyPatch) -> tuple[asyncio.Event, list[str]]:
    """Makes every answer wait for an event; gives that, and what was heard behind a request meanwhile."""
    go, heard = asyncio.Event(), []
    plain = Front.__call__

    async def waiting(front: Front, scope: Scope, receive: Receive, send: Send) -> None:
        async def hear() -> None:
            while (message := await receive())["type"] == "http.request":
                pass
            heard.append(message["type"])
            go.set()

        hearing = asyncio.ensure_future(hear())
        await go.wait()
        hearing.cancel()
        await plain(front, scope, receive, send)

    monkeypatch.setattr(Front, "__call__", waiting)
    return go, heard


TALK = GET[:-2] + b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n"


@pytest.mark.parametrize(
    "behind",
    [b"\x00\r\n", b"GET /healthz HTTP/1.1\r\n\r\n", CHUNKED + b"zz\r\n", TALK, 2 * LONG * b"a"],
)
async def test_what_cannot_be_read_is_refused_behind_the_answers_to_what_could_be(
    host: Host, monkeypatch: pytest.MonkeyPatch, behind: bytes
) -> None:
    go, _ = held_answers(monkeypatch)
    async with connected(host) as (reader, writer):
        writer.write(GET + behind)
        await asyncio.sleep(0.05)
        go.set()
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.count(b"HTTP/1.1 ") == answer.count(b"HTTP/1.1 400 ") + 1 == 2


@pytest.mark.parametrize("behind", [b"", GET, GET[:-2], TALK, b"\x00\r\n"])
async def test_an_answer_hears_that_its_client_has_gone_whatever_came_behind_its_request(
    host: Host, monkeypatch: pytest.MonkeyPatch, behind: bytes
) -> None:
    go, heard = held_answers(monkeypatch)
    async with connected(host) as (_, writer):
        writer.write(GET + behind)
        await asyncio.sleep(0.05)
        writer.transport.abort()
        await go.wait()
    assert heard == ["http.disconnect"]


async def test_not_everything_that_comes_behind_a_request_waits(host: Host) -> None:
    async with connected(host) as (reader, writer):
        writer.write(1000 * GET)
        answer = b""
        with suppress(ConnectionError):
            answer = await reader.read()
    assert answer.count(b"HTTP/1.1 200 ") <= connections.MAX_WAITING + 1


@pytest.mark.parametrize("behind", [b"", GET[:9], GET + GET[:9]])
async def test_an_answer_is_waited_for_whatever_came_behind_its_request(
    host: Host, monkeypatch: pytest.MonkeyPatch, behind: bytes
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", SHORT)
    go, _ = held_answers(monkeypatch)
    async with connected(host) as (reader, writer):
        writer.write(GET + behind)
        await asyncio.sleep(3 * SHORT)
        go.set()
        assert b'{"status":"ok"}' in await reader.readuntil(b"}")


@pytest.mark.parametrize(
    ("asked", "then"),
    [
        (GET, b"\r\n"),
        (posted(9).replace(b"/v1/runs", b"/nothing"), b"a"),
        (GET, TALK[:-2] + b"Content-Length: 9\r\n\r\n"),
    ],
)
async def test_what_comes_behind_an_answer_is_not_waited_for_for_ever(
    host: Host, monkeypatch: pytest.MonkeyPatch, asked: bytes, then: bytes
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", SHORT)
    async with connected(host) as (reader, writer):
        writer.write(asked)
        await reader.readuntil(b"}")
        writer.write(then)
        await reader.read()


async def test_an_old_client_is_answered_without_chunks(host: Host) -> None:
    key = await host.tenant("acme")
    order = b'{"skill":"greeter","command":"echo hello"}'
    async with connected(host) as (reader, writer):
        writer.write(posted(len(order), f"Authorization: Bearer {key}") + order)
        run_id = (await reader.readuntil(b'"skill"')).partition(b'{"id":"')[2][:26]
    async with connected(host) as (reader, writer):
        writer.write(
            b"GET /v1/runs/%b/events HTTP/1.0\r\nAuthorization: Bearer %b\r\n\r\n" % (run_id, key.encode())
        )
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    assert b"chunked" not in head
    assert b"exited" in body
    assert not body.endswith(b"0\r\n\r\n")


def _take_little(writer: asyncio.StreamWriter) -> None:
    """Keeps the kernel from taking megabytes for the program."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, LONG)


async def answers(reader: asyncio.StreamReader, come: bytearray) -> int:
    """Returns how many answers come, all of them or until the connection ends."""
    with suppress(ConnectionError):
        while come.count(GOOD) < ANSWERS and (more := await reader.read(LONG)):
            come += more
    return come.count(GOOD)


GOOD = b"HTTP/1.1 200"


ANSWERS = 60
LONG_ANSWERS = ANSWERS * b"GET /v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"


async def test_who_takes_nothing_of_an_answer_is_let_go(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "UNREAD_SECONDS", SHORT)
    lost = asyncio.Event()
    plain = connections.Connection.connection_lost

    def noticed(connection: connections.Connection, exc: Exception | None) -> None:
        lost.set()
        plain(connection, exc)

    monkeypatch.setattr(connections.Connection, "connection_lost", noticed)
    async with connected(host) as (reader, writer):
        _take_little(writer)
        writer.write(LONG_ANSWERS)
        await lost.wait()  # until the buffers are full, and then until a probe of the closed window
        assert await answers(reader, bytearray()) < ANSWERS


async def test_who_takes_nothing_for_less_than_a_minute_gets_it_all(host: Host) -> None:
    async with connected(host) as (reader, writer):
        _take_little(writer)
        writer.write(LONG_ANSWERS)
        await asyncio.sleep(10 * SHORT)
        assert await answers(reader, bytearray()) == ANSWERS


async def test_who_takes_it_slowly_gets_it_all(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "UNREAD_SECONDS", 10 * SHORT)
    async with connected(host) as (reader, writer):
        _take_little(writer)
        writer.write(LONG_ANSWERS)
        come = bytearray()
        for _ in range(8):  # longer than that on the whole
            come += await reader.readexactly(4 * LONG)
            await asyncio.sleep(2 * SHORT)
        count = await answers(reader, come)
    assert count == ANSWERS
