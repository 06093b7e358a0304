from __future__ import annotations

import asyncio
import os
import pty
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import pytest

from sandbox_skills.cli import live
from sandbox_skills.cli.live import shown_live
from sandbox_skills.cli.streams import OutputClosedError
from sandbox_skills.cli.terminal import Progress

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sandbox_skills.engines.base import OutputSink

    Piece = tuple[Literal["stdout", "stderr"], bytes]

pytestmark = pytest.mark.anyio

NO_PROGRESS = Progress(None)


async def printing(pieces: Iterable[Piece], sink: OutputSink) -> str:
    for stream, data in pieces:
        sink(stream, data)
        await asyncio.sleep(0)
    return "result"


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int]]:
    """A pipe whose writing end stands for stdout."""
    reading, writing = os.pipe()
    monkeypatch.setattr(live, "STDOUT", writing)
    yield reading, writing
    for descriptor in (reading, writing):
        with suppress(OSError):  # the test may have closed it
            os.close(descriptor)


async def test_bytes_arrive_as_they_were_and_in_order(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    pieces: list[Piece] = [("stdout", bytes(range(256))), ("stderr", b"\x1b[31m"), ("stdout", b"\xff\x00")]
    assert await shown_live(lambda sink: printing(pieces, sink), NO_PROGRESS) == "result"
    assert capfdbinary.readouterr() == (bytes(range(256)) + b"\xff\x00", b"\x1b[31m")


async def test_a_failure_of_the_run_is_raised_after_its_output(capfd: pytest.CaptureFixture[str]) -> None:
    async def work(sink: OutputSink) -> None:
        sink("stdout", b"before")
        raise ValueError("lost")

    with pytest.raises(ValueError, match="lost"):
        await shown_live(work, NO_PROGRESS)
    assert capfd.readouterr().out == "before"


async def test_a_reader_that_goes_away_ends_the_run(pipe: tuple[int, int]) -> None:
    ended: list[bool] = []

    async def work(sink: OutputSink) -> None:
        try:
            while True:
                sink("stdout", b"y\n")
                await asyncio.sleep(0)
        finally:
            ended.append(True)

    os.close(pipe[0])
    with pytest.raises(OutputClosedError):
        await shown_live(work, NO_PROGRESS)
    assert ended == [True]


async def test_a_full_device_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "wb") as full:  # noqa: ASYNC230, PTH123  # a device that answers at once
        monkeypatch.setattr(live, "STDOUT", full.fileno())
        with pytest.raises(OSError, match="No space left"):
            await shown_live(lambda sink: printing([("stdout", b"x")], sink), NO_PROGRESS)


async def test_a_reader_that_does_not_read_holds_up_neither_the_run_nor_a_cancel(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "DRAIN_SECONDS", 0.05)
    printed = asyncio.Event()

    async def work(sink: OutputSink) -> None:
        for _ in range(100):
            sink("stdout", bytes(64 * 1024))
        printed.set()
        await asyncio.sleep(60)

    task = asyncio.ensure_future(shown_live(work, NO_PROGRESS))
    await asyncio.wait_for(printed.wait(), 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 10)
    writers = [thread for thread in threading.enumerate() if thread.name == "live output"]
    assert [thread.daemon for thread in writers] == [True], "it must not hold up the end of the program"
    os.close(pipe[0])  # lets it go
    writers[0].join(5)
    assert not writers[0].is_alive()


async def test_a_cancelled_run_shows_what_it_printed_by_then(capfd: pytest.CaptureFixture[str]) -> None:
    async def work(sink: OutputSink) -> None:
        sink("stdout", b"so far")
        await asyncio.sleep(10)

    task = asyncio.ensure_future(shown_live(work, NO_PROGRESS))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert capfd.readouterr().out == "so far"


class Terminal:
    """A stand-in for `sys.stdout` on a terminal."""

    def isatty(self) -> bool:
        return True


async def test_a_terminal_gets_whole_characters_and_no_controls(monkeypatch: pytest.MonkeyPatch) -> None:
    leader, follower = pty.openpty()
    monkeypatch.setattr(live, "STDOUT", follower)
    monkeypatch.setattr("sys.stdout", Terminal())
    pieces: list[Piece] = [("stdout", piece) for piece in (b"\xe2\x82", b"\xac \x1b[2J", b"\xff \xe2")]
    await shown_live(lambda sink: printing(pieces, sink), NO_PROGRESS)
    os.close(follower)
    # A read takes what has reached this end, which may be a part; with the other end closed it fails at the end.
    shown = b""
    with suppress(OSError):
        while data := os.read(leader, 100):
            shown += data
    os.close(leader)
    assert shown.decode() == r"€ \x1b[2J\xff \xe2"
