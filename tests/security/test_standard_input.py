"""What a program does with its standard input, and without one, holds up nobody."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.engines.wire import STDIN_WINDOW
from sandbox_skills.spec import KIB, MIB, Command, Exited, Limits, Stopped
from tests.security.conftest import ENVIRONMENT

if TYPE_CHECKING:
    from tests.security.conftest import Box, OpenBox

pytestmark = [pytest.mark.anyio]

PATIENCE = Limits(wall_seconds=5)
"""A program that waits for input which nobody sends would be stopped by this, and is not to get so far."""

MUCH = 8 * STDIN_WINDOW


def reading_wherever_input_might_be() -> dict[str, str]:
    import os
    import sys
    from pathlib import Path

    from tests.security.inside import errno_of, opened

    # The honest twin: what is there to be read is an end, again and again.
    read = [sys.stdin.read(), sys.stdin.buffer.read().decode(), os.read(0, 1 << 20).decode()]
    found = {"descriptor": "".join(read)}
    for name in ("/dev/stdin", "/proc/self/fd/0", "/dev/fd/0"):
        found[name] = Path(name).read_text("ascii")
    found["/dev/tty"] = opened("/dev/tty", os.O_RDWR)
    found["write"] = errno_of(lambda: os.write(0, b"x"))
    return found


async def test_who_is_given_none_reads_an_end_at_once(box: Box) -> None:
    outcome = await box.run(
        Command(("sh", "-c", "cat; cat; cat; read x || echo end"), env=ENVIRONMENT), limits=PATIENCE
    )
    assert (outcome.ending, outcome.stdout) == (Exited(0), b"end\n")


async def test_there_is_nothing_to_read_or_to_answer_anywhere(box: Box) -> None:
    found = await box.call(reading_wherever_input_might_be)
    assert found == {
        **dict.fromkeys(("descriptor", "/dev/stdin", "/proc/self/fd/0", "/dev/fd/0"), ""),
        "/dev/tty": "ENXIO",
        "write": "EBADF",
    }


async def test_every_program_of_a_run_reads_the_end(box: Box) -> None:
    outcome = await box.shell("for n in 1 2 3 4; do (setsid cat; echo $n) & done; wait", limits=PATIENCE)
    assert (outcome.ending, sorted(outcome.stdout.split())) == (Exited(0), [b"1", b"2", b"3", b"4"])


async def test_who_reads_none_of_what_it_is_given_ends_as_it_likes(box: Box) -> None:
    start = time.monotonic()
    outcome = await box.run(Command(("true",), env=ENVIRONMENT, stdin=bytes(MUCH)), limits=PATIENCE)
    assert outcome.ending == Exited(0)
    assert time.monotonic() - start < PATIENCE.wall_seconds


async def test_who_hoards_it_unread_is_stopped_and_the_next_run_works(box: Box) -> None:
    sleeper = Command(("sleep", "60"), env=ENVIRONMENT, stdin=bytes(MUCH))
    outcome = await box.run(sleeper, limits=Limits(wall_seconds=0.5))
    assert outcome.ending == Stopped("wall_time")
    assert (await box.shell("echo next")).stdout == b"next\n"


async def test_what_is_left_unread_stays_with_the_host(open_box: OpenBox) -> None:
    async with open_box() as box:
        # It looks at the runner when that has had the time to take all it would.
        look = "sleep 2; grep VmRSS /proc/1/status"
        command = Command(("sh", "-c", look), env=ENVIRONMENT, stdin=bytes(64 * MIB))
        outcome = await box.run(command, limits=PATIENCE)
        assert int(outcome.stdout.split()[1]) < 64 * KIB


async def test_who_is_given_some_reads_all_of_it_and_then_the_end(box: Box) -> None:
    command = Command(("sh", "-c", "wc -c; wc -c"), env=ENVIRONMENT, stdin=bytes(MUCH))
    assert (await box.run(command, limits=PATIENCE)).stdout.split() == [b"%d" % MUCH, b"0"]
