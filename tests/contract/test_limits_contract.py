"""Each limit is hit alone, and gives one ending and one entry of `limits_hit`: on every engine that enforces it."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.errors import WorkspaceFullError
from sandbox_skills.spec import (
    BASE_GUARANTEES,
    KIB,
    MIB,
    CollectLimits,
    Command,
    Ending,
    Exited,
    Limits,
    SandboxLimits,
    SandboxSpec,
    Signalled,
    Stopped,
)
from sandbox_skills.workspace.outputs import MemorySink
from tests.contract.engines import ENFORCING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sandbox_skills.engines.base import Engine, Sandbox
    from sandbox_skills.spec import LimitName

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ENFORCING, indirect=True)]

SMALL = SandboxLimits(
    memory=96 * MIB,
    pids=24,
    workspace_bytes=8 * MIB,
    workspace_inodes=300,
    tmp_bytes=4 * MIB,
    shm_bytes=2 * MIB,
    open_files=64,
    file_bytes=16 * MIB,
)
"""Quickly reached, and far enough from each other that one attack reaches one of them."""

WALL = Limits(wall_seconds=15)

FORKING = """
import os, time
try:
    while True:
        if not os.fork():
            time.sleep(60)
except BlockingIOError as error:
    print(error.errno)
"""


def sh(text: str) -> Command:
    return Command(("bash", "-c", text), env={"PATH": "/usr/local/bin:/usr/bin:/bin"})


def python(text: str) -> Command:
    return Command(("python3", "-c", text), env={"PATH": "/usr/bin:/bin"})


@dataclass(frozen=True, slots=True)
class Case:
    """What reaches a limit, and how that is told. `guessed` is whether no counter of the kernel shows it."""

    command: Command
    ending: Ending
    hit: frozenset[LimitName] = frozenset()
    guessed: bool = False
    limits: Limits = WALL
    live: bool = False


def one(name: LimitName) -> frozenset[LimitName]:
    return frozenset({name})


CASES = {
    "wall": Case(sh("sleep 60"), Stopped("wall_time"), limits=Limits(wall_seconds=0.4)),
    "wall, asleep in many children": Case(
        sh("for i in {1..9}; do sleep 60 & done; wait"), Stopped("wall_time"), limits=Limits(wall_seconds=0.4)
    ),
    "cpu seconds": Case(
        python("while True: pass"),
        Stopped("cpu_time"),
        one("cpu_time"),
        limits=Limits(wall_seconds=15, cpu_seconds=0.4),
    ),
    "cpu seconds, spent by children": Case(
        sh("for i in {1..3}; do (while :; do :; done) & done; wait"),
        Stopped("cpu_time"),
        one("cpu_time"),
        limits=Limits(wall_seconds=15, cpu_seconds=0.4),
    ),
    "memory": Case(python("x = bytearray(1 << 30)"), Stopped("memory"), one("memory")),
    "memory of a child": Case(
        sh("python3 -c 'x = bytearray(1 << 30)'; echo; exit 3"), Exited(3), one("memory")
    ),
    "pids": Case(python(FORKING), Exited(0), one("pids")),
    "disk": Case(sh("head -c 12M /dev/zero > /workspace/work/x"), Exited(1), one("disk"), guessed=True),
    "disk of /tmp": Case(sh("head -c 12M /dev/zero > /tmp/x"), Exited(1), one("disk"), guessed=True),
    "disk of /dev/shm": Case(sh("head -c 12M /dev/zero > /dev/shm/x"), Exited(1), one("disk"), guessed=True),
    "inodes": Case(sh("cd work && touch {1..400}"), Exited(1), one("inodes"), guessed=True),
    "stdout kept": Case(
        sh("head -c 20K /dev/zero"), Exited(0), one("stdout"), limits=Limits(15, stdout_bytes=KIB)
    ),
    "stderr kept": Case(
        sh("head -c 20K /dev/zero >&2"), Exited(0), one("stderr"), limits=Limits(15, stderr_bytes=KIB)
    ),
    "output in all": Case(
        sh("yes"),
        Stopped("output"),
        one("stdout"),
        limits=Limits(15, stdout_bytes=KIB, output_bytes=MIB),
        live=True,
    ),
    "file size": Case(
        sh("exec dd if=/dev/zero of=/workspace/work/x bs=1M seek=16 count=1"),
        Signalled(signal.SIGXFSZ),
        one("file_size"),
    ),
    "file size, in a child": Case(
        sh("dd if=/dev/zero of=/workspace/work/x bs=1M seek=16 count=1; exit $?"),
        Exited(128 + signal.SIGXFSZ),
        one("file_size"),
        guessed=True,
    ),
    "descriptors": Case(
        python("kept = [open('/dev/null') for _ in range(100)]"), Exited(1), one("open_files"), guessed=True
    ),
}


@pytest.fixture
async def small(engine: Engine) -> AsyncIterator[Sandbox]:
    async with engine.open(SandboxSpec(limits=SMALL)) as sandbox:
        yield sandbox


async def test_the_engine_promises_every_one(engine: Engine) -> None:
    await engine.probe()
    assert engine.guarantees >= BASE_GUARANTEES


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_it_gives_its_one_ending_and_entry(small: Sandbox, case: Case) -> None:
    outcome = await small.run(
        case.command, limits=case.limits, on_output=(lambda _stream, _data: None) if case.live else None
    )
    assert (outcome.ending, outcome.limits_hit) == (case.ending, case.hit), outcome
    assert outcome.limits_guessed == (case.hit if case.guessed else frozenset())
    assert outcome.sandbox_lives
    after = await small.run(sh("rm -rf work/* /tmp/* /dev/shm/*; exec true"), limits=WALL)
    assert after.ok, after


@pytest.mark.parametrize(
    ("limits", "hit"),
    [
        pytest.param(CollectLimits(files=2), one("collected_files"), id="files"),
        pytest.param(CollectLimits(total_bytes=1500), one("collected_bytes"), id="bytes in all"),
        pytest.param(CollectLimits(file_bytes=500), one("collected_bytes"), id="bytes of one"),
        pytest.param(CollectLimits(), frozenset(), id="none"),
    ],
)
async def test_a_collection_has_its_own(
    small: Sandbox, limits: CollectLimits, hit: frozenset[LimitName]
) -> None:
    assert (await small.run(sh("for n in 1 2 3; do head -c 1000 /dev/zero > out/$n; done"), limits=WALL)).ok
    found = await small.collect(["out/*"], limits, MemorySink())
    assert found.limits_hit == hit


async def test_below_every_limit_none_is_told(small: Sandbox) -> None:
    honest = (
        "head -c 6M /dev/zero > work/x && head -c 2M /dev/zero > /tmp/x && touch work/{1..100} "
        "&& for i in {1..9}; do sleep 0.1 & done; wait; head -c 900 /dev/zero"
    )
    outcome = await small.run(sh(honest), limits=Limits(15, cpu_seconds=5, stdout_bytes=KIB))
    assert outcome.ok, outcome
    assert outcome.limits_hit == frozenset()


async def test_what_the_host_puts_is_limited_with_what_programs_write(small: Sandbox) -> None:
    assert (await small.run(sh("head -c 7M /dev/zero > work/x"), limits=WALL)).ok

    async def chunks() -> AsyncIterator[bytes]:
        yield bytes(2 * MIB)

    with pytest.raises(WorkspaceFullError):
        await small.put(PurePosixPath("work/y"), chunks())
    assert (await small.run(sh("test ! -e work/y"), limits=WALL)).ok
