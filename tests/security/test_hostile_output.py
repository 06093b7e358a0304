"""Whatever a program prints, the host keeps little, says what is missing, and sees one ending."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.engines.client import RunnerClient
from sandbox_skills.engines.wire import Kind
from sandbox_skills.spec import KIB, MIB, Command, Exited, Limits, Stopped

if TYPE_CHECKING:
    from sandbox_skills.engines.wire import Frame
    from tests.security.conftest import Box

pytestmark = [pytest.mark.anyio]

GIB = 1024 * MIB
GROWTH = 32 * MIB
"""What a flood may cost the host in memory, however long it is."""


def alternating() -> None:
    import os

    for _ in range(2000):
        os.write(1, b"o" * 1000)
        os.write(2, b"e" * 1000)


def closing_and_staying() -> None:
    import os
    import time

    os.closerange(0, 3)
    time.sleep(0.5)
    os._exit(3)


def printing_after_the_end() -> None:
    import os
    import time

    if not os.fork():
        os.setsid()
        while True:
            os.write(1, b"late\n")
            time.sleep(0.001)
    time.sleep(0.1)
    os.write(1, b"last\n")  # as one piece: `print` writes the end of the line by itself


def memory_field(name: str) -> int:
    """A number of /proc/self/status, in bytes."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * KIB for line in lines if line.startswith(f"{name}:"))


def forget_the_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


@pytest.mark.parametrize("live", [False, True], ids=["counted", "streamed"])
@pytest.mark.slow
@pytest.mark.timeout(150)
async def test_a_gigabyte_of_output_costs_the_host_little_memory(box: Box, *, live: bool) -> None:
    seen = 0

    def sink(_stream: str, data: bytes, /) -> None:
        nonlocal seen
        seen += len(data)

    forget_the_peak()
    before = memory_field("VmRSS")
    outcome = await box.run(
        Command(("head", "-c", str(GIB), "/dev/zero"), env={"PATH": "/bin"}),
        # What is heard live comes at 32 MiB in a second.
        limits=Limits(wall_seconds=120, output_bytes=2 * GIB),
        on_output=sink if live else None,
    )
    assert memory_field("VmHWM") - before < GROWTH
    assert (outcome.ending, outcome.stdout_bytes, outcome.stdout_truncated) == (Exited(0), GIB, True)
    assert outcome.stdout == bytes(MIB)
    assert seen == (GIB if live else 0)


async def test_a_flood_is_stopped_at_the_hard_limit(box: Box) -> None:
    outcome = await box.shell("yes")
    assert outcome.ending == Stopped("output")
    assert 64 * MIB <= outcome.stdout_bytes < 72 * MIB


@pytest.mark.parametrize(
    "data",
    [
        bytes(range(256)) * 64,
        b"\0" * 5000,
        b"\x1b]0;title\x07\x1b[2J\x1b[31mred\x1b]52;c;aGk=\x07",
        b"\xff\xfe\xc3\x28 \xed\xa0\x80",
        b"no newline",
        "\N{SNOWMAN}".encode()[:2],
    ],
    ids=["every byte", "NULs", "escapes", "no UTF-8", "no newline", "half a character"],
)
async def test_bytes_come_back_as_they_were(box: Box, data: bytes) -> None:
    outcome = await box.run(Command(("cat",), env={"PATH": "/bin"}, stdin=data))
    assert (outcome.stdout, outcome.stdout_bytes, outcome.stdout_truncated) == (data, len(data), False)


async def test_text_that_is_cut_ends_with_a_whole_character(box: Box) -> None:
    text = "\N{SNOWMAN}" * 100
    outcome = await box.run(
        Command(("cat",), env={"PATH": "/bin"}, stdin=text.encode()), limits=Limits(stdout_bytes=100)
    )
    assert (outcome.stdout.decode(), outcome.stdout_truncated) == ("\N{SNOWMAN}" * 33, True)


async def test_two_streams_in_turn_are_kept_apart(box: Box) -> None:
    outcome = await box.run(box.program(alternating))
    assert outcome.ok
    assert (outcome.stderr_bytes, set(outcome.stderr)) == (2_000_000, {ord("e")})
    assert set(outcome.stdout) == {ord("o")}


async def test_closing_the_output_is_not_the_end(box: Box) -> None:
    outcome = await box.run(box.program(closing_and_staying))
    assert outcome.ending == Exited(3)
    assert outcome.wall_seconds >= 0.5


async def test_nothing_comes_after_the_one_ending(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(box.sandbox, RunnerClient)
    link = box.sandbox.link
    frames: list[Frame] = []
    dispatch = link._dispatch

    def spy(frame: Frame) -> None:
        frames.append(frame)
        dispatch(frame)

    monkeypatch.setattr(link, "_dispatch", spy)
    outcome = await box.run(box.program(printing_after_the_end))
    kinds = [frame.kind for frame in frames]
    await asyncio.sleep(0.2)
    assert (outcome.ending, kinds.count(Kind.ENDED), kinds[-1]) == (Exited(0), 1, Kind.ENDED)
    assert len(frames) == len(kinds)
    assert b"last\n" in outcome.stdout
