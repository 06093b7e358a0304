"""The client and the real runner, as plain processes over a socketpair."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
import time
from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Literal

import anyio
import pytest

from sandbox_skills.engines.channel import StreamProtocol
from sandbox_skills.engines.classify import Death
from sandbox_skills.engines.client import RunnerClient
from sandbox_skills.engines.pace import OUTPUT_BURST, OUTPUT_RATE
from sandbox_skills.engines.process import RunnerProcess
from sandbox_skills.errors import InputError, RequestError, SandboxLostError
from sandbox_skills.spec import (
    MIB,
    CollectLimits,
    Command,
    Exited,
    Limits,
    SandboxId,
    Stopped,
    TerminalSize,
)
from tests.programs import RUNNER

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from sandbox_skills.spec import FoundFile

pytestmark = pytest.mark.anyio


ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}


class Sink:
    blocking = False

    def __init__(self, error: Exception | None = None) -> None:
        self.files: dict[str, bytearray] = {}
        self._error = error
        self._current = bytearray()

    def begin(self, file: FoundFile, /) -> None:
        self._current = self.files[str(file.path)] = bytearray()

    def write(self, data: bytes, /) -> None:
        if self._error is not None:
            raise self._error
        self._current += data

    def end(self) -> None: ...


class SlowSink(Sink):
    """Takes its time as a disk would, and notes who calls it and whether two do at once."""

    blocking = True

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__(error)
        self.threads: set[int] = set()
        self.busy = False

    def write(self, data: bytes, /) -> None:
        assert not self.busy
        self.busy = True
        self.threads.add(threading.get_ident())
        time.sleep(0.002)
        super().write(data)
        self.busy = False


class Heard:
    """Takes live output; `something` is set by the first of it."""

    def __init__(self) -> None:
        self.said = bytearray()
        self.something = asyncio.Event()

    def __call__(self, stream: Literal["stdout", "stderr"], data: bytes, /) -> None:
        self.said += data
        self.something.set()


@asynccontextmanager
async def runner(workspace: Path, concurrent_runs: int) -> AsyncGenerator[RunnerClient]:
    skills = workspace.parent / "skills"
    for path in (workspace, skills):
        path.mkdir(exist_ok=True)
    ours, theirs = socket.socketpair()
    with theirs:
        argv = [
            sys.executable,
            "-I",
            "-S",
            "-B",
            str(RUNNER),
            "--workspace",
            str(workspace),
            "--skills",
            str(skills),
        ]
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=theirs.fileno(), stdout=theirs.fileno(), env=ENVIRONMENT
        )

    async def post_mortem() -> Death:
        return Death(oom=False, exit_code=None)

    client = RunnerClient(SandboxId("box"), post_mortem=post_mortem, concurrent_runs=concurrent_runs)
    _, channel = await asyncio.get_running_loop().create_connection(
        lambda: StreamProtocol(client.link.received, client.link.lost), sock=ours
    )
    client.link.connect(channel)
    try:
        hello = await client.hello(10)
        assert hello["pid"] == process.pid
        yield client
    finally:
        client.close()
        await asyncio.wait_for(process.wait(), 10)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return tmp_path / "workspace"


@pytest.fixture
async def box(anyio_backend: object, workspace: Path) -> AsyncIterator[RunnerClient]:
    async with runner(workspace, 1) as client:
        yield client


def command(workspace: Path, *argv: str, stdin: bytes | None = None) -> Command:
    return Command(argv, env=ENVIRONMENT, cwd=PurePosixPath(workspace), stdin=stdin)


async def parts(*data: bytes) -> AsyncIterator[bytes]:
    for one in data:
        yield one


async def test_a_run_comes_back_with_all_it_said(box: RunnerClient, workspace: Path) -> None:
    data = bytes(range(256)) * 1000
    outcome = await box.run(command(workspace, "sh", "-c", "cat; echo oops >&2; exit 3", stdin=data))
    assert (outcome.ending, outcome.stdout, outcome.stderr) == (Exited(3), data, b"oops\n")


async def test_live_output_is_all_of_it_at_its_pace(box: RunnerClient, workspace: Path) -> None:
    live = bytearray()
    started = time.monotonic()

    def sink(stream: Literal["stdout", "stderr"], data: bytes, /) -> None:
        live.extend(data)

    outcome = await box.run(
        command(workspace, "head", "-c", str(20 * MIB), "/dev/zero"),
        limits=Limits(stdout_bytes=10),
        on_output=sink,
    )
    assert (len(live), outcome.stdout_bytes, outcome.stdout) == (20 * MIB, 20 * MIB, bytes(10))
    # What came in one reading is taken whole before the channel rests, and nothing is waited for after the last.
    unpaced = OUTPUT_BURST + StreamProtocol.BUFFER
    assert time.monotonic() - started >= (20 * MIB - unpaced) / OUTPUT_RATE


async def test_a_box_whose_output_rests_can_be_closed(box: RunnerClient, workspace: Path) -> None:
    heard = asyncio.Event()
    run = asyncio.ensure_future(
        box.run(
            command(workspace, "yes"),
            limits=Limits(output_bytes=1024 * MIB),
            on_output=lambda *_: heard.set(),
        )
    )
    await heard.wait()
    box.close()
    with pytest.raises(SandboxLostError):
        await run
    await asyncio.sleep(0.1)  # a rest that was to end meanwhile


async def test_output_without_end_stays_within_the_hosts_own_count(
    box: RunnerClient, workspace: Path
) -> None:
    for sink in (None, lambda *_: None):
        outcome = await box.run(command(workspace, "yes"), limits=Limits(output_bytes=MIB), on_output=sink)
        assert outcome.ending == Stopped("output")
    assert box.alive


async def test_files_go_there_and_come_back(box: RunnerClient, workspace: Path) -> None:
    data = os.urandom(9 * MIB + 1)
    assert await box.put(PurePosixPath("work/a"), parts(data[:100], b"", data[100:]), mode=0o755) == len(data)
    assert (workspace / "work/a").stat().st_mode & 0o777 == 0o755
    async with box.get(PurePosixPath("work/a"), max_bytes=10 * MIB) as chunks:
        assert b"".join([chunk async for chunk in chunks]) == data
    sink = Sink()
    limits = CollectLimits(file_bytes=10 * MIB)
    collection = await box.collect(["work/*"], limits, sink)
    assert {path: bytes(got) for path, got in sink.files.items()} == {"work/a": data}
    assert collection.files[0].size == len(data)


@pytest.mark.parametrize("kind", [Sink, SlowSink])
async def test_many_files_need_no_more_credit_than_there_is(
    box: RunnerClient, workspace: Path, kind: type[Sink]
) -> None:
    (workspace / "out").mkdir(exist_ok=True)
    for index in range(600):
        (workspace / f"out/{index:03}").write_bytes(bytes(30_000))
    sink = kind()
    collection = await box.collect(["out/*"], CollectLimits(files=1000), sink)
    assert len(collection.files) == 600
    assert sum(map(len, sink.files.values())) == 600 * 30_000


async def test_a_source_that_raises_halfway_leaves_nothing(box: RunnerClient, workspace: Path) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield bytes(MIB)
        raise LookupError("the source's own")

    with pytest.raises(LookupError, match="the source's own"):
        await box.put(PurePosixPath("out/a"), broken())
    await box.ping()
    assert list((workspace / "out").iterdir()) == []
    assert await box.put(PurePosixPath("out/a"), parts(b"abc")) == 3
    assert box.alive


async def test_a_cancelled_put_leaves_nothing(box: RunnerClient, workspace: Path) -> None:
    async def stalling() -> AsyncIterator[bytes]:
        yield bytes(MIB)
        await asyncio.sleep(60)

    with anyio.move_on_after(0.1) as scope:
        await box.put(PurePosixPath("out/a"), stalling())
    assert scope.cancelled_caught
    await box.ping()
    assert list((workspace / "out").iterdir()) == []


async def test_a_file_that_is_left_early_costs_nothing(box: RunnerClient, workspace: Path) -> None:
    (workspace / "big").write_bytes(bytes(50 * MIB))
    for _ in range(5):
        async with box.get(PurePosixPath("big"), max_bytes=50 * MIB) as chunks:
            assert await anext(chunks)
    assert await box.ping() < 1


async def test_a_slow_disk_holds_up_the_box_and_not_the_loop(box: RunnerClient, workspace: Path) -> None:
    (workspace / "big").write_bytes(bytes(40 * MIB))
    limits = CollectLimits(file_bytes=50 * MIB, total_bytes=50 * MIB)
    sink, ticks = SlowSink(), 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.005)
            ticks += 1

    ticking = asyncio.ensure_future(tick())
    await box.collect(["*"], limits, sink)
    ticking.cancel()
    assert len(sink.files["big"]) == 40 * MIB
    assert threading.get_ident() not in sink.threads
    assert ticks >= 10  # 160 writes of 2 ms each


async def test_whoever_cancels_a_collection_hears_of_it_when_its_sink_is_left_alone(
    box: RunnerClient, workspace: Path
) -> None:
    (workspace / "big").write_bytes(bytes(40 * MIB))
    limits = CollectLimits(file_bytes=50 * MIB, total_bytes=50 * MIB)
    for seconds in (0.001, 0.01, 0.03):
        sink = SlowSink()
        with anyio.move_on_after(seconds) as scope:
            await box.collect(["*"], limits, sink)
        assert scope.cancelled_caught
        assert not sink.busy
        had = len(sink.files.get("big", b""))
        await asyncio.sleep(0.02)
        assert len(sink.files.get("big", b"")) == had
    assert await box.ping() < 1


async def test_a_cancelled_collection_leaves_the_box_usable(box: RunnerClient, workspace: Path) -> None:
    (workspace / "big").write_bytes(bytes(50 * MIB))
    limits = CollectLimits(file_bytes=50 * MIB, total_bytes=50 * MIB)
    for _ in range(5):
        with anyio.move_on_after(0.005):
            await box.collect(["*"], limits, Sink())
    sink = Sink()
    await box.collect(["*"], limits, sink)
    assert len(sink.files["big"]) == 50 * MIB


@pytest.mark.parametrize("kind", [Sink, SlowSink])
async def test_a_sink_that_raises_leaves_the_box_usable(
    box: RunnerClient, workspace: Path, kind: type[Sink]
) -> None:
    for size in (20 * MIB, 5):
        (workspace / "big").write_bytes(bytes(size))
        with pytest.raises(OSError, match="disk of the host is full"):
            await box.collect(
                ["*"], CollectLimits(file_bytes=20 * MIB), kind(OSError("disk of the host is full"))
            )
    assert (await box.run(command(workspace, "true"))).ok


async def test_a_cancel_kills_the_run_before_it_is_heard(box: RunnerClient, workspace: Path) -> None:
    said = bytearray()
    started = asyncio.Event()

    def sink(stream: Literal["stdout", "stderr"], data: bytes, /) -> None:
        said.extend(data)
        started.set()

    for _ in range(5):
        said.clear()
        started.clear()
        program = command(workspace, "sh", "-c", "echo $$; exec sleep 60")
        task = asyncio.ensure_future(box.run(program, on_output=sink))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(ProcessLookupError):
            os.kill(int(said), 0)
    assert (await box.run(command(workspace, "true"))).ok


async def test_runs_at_once_are_kept_apart(workspace: Path) -> None:
    async with runner(workspace, 8) as box:
        texts = [f"text {index}\n".encode() * 1000 for index in range(8)]
        outcomes = await asyncio.gather(*(box.run(command(workspace, "cat", stdin=text)) for text in texts))
        assert [outcome.stdout for outcome in outcomes] == texts


async def test_everything_at_once_is_kept_apart(workspace: Path) -> None:
    async with runner(workspace, 4) as box:
        data = os.urandom(5 * MIB)
        (workspace / "in").write_bytes(data)

        async def read() -> bytes:
            async with box.get(PurePosixPath("in"), max_bytes=len(data)) as chunks:
                return b"".join([chunk async for chunk in chunks])

        async with asyncio.TaskGroup() as group:
            reads = [group.create_task(read()) for _ in range(3)]
            puts = [group.create_task(box.put(PurePosixPath(f"out/{n}"), parts(data))) for n in range(3)]
            runs = [group.create_task(box.run(command(workspace, "cat", "in"))) for _ in range(3)]
            pings = [group.create_task(box.ping()) for _ in range(20)]
        assert all(task.result() == data for task in reads)
        assert all(task.result() == len(data) for task in puts)
        assert all(task.result().stdout_bytes == len(data) for task in runs)
        assert max(task.result() for task in pings) < 5


async def test_what_the_runner_refuses_is_an_error_of_the_caller(box: RunnerClient) -> None:
    with pytest.raises(RequestError):
        await box.put(PurePosixPath("x" * 300), parts(b"a"))
    with pytest.raises(InputError):
        async with box.get(PurePosixPath("out"), max_bytes=1):
            pass
    await box.prepare(
        dirs=[PurePosixPath("out/deep")], links={PurePosixPath("out/link"): PurePosixPath("deep")}
    )
    with pytest.raises(InputError):
        async with box.get(PurePosixPath("nothing"), max_bytes=1):
            pass
    assert box.alive


async def test_a_runner_that_is_killed_is_a_lost_box(workspace: Path) -> None:
    async with runner(workspace, 2) as box:
        started = time.monotonic()
        kill = command(workspace, "sh", "-c", "kill -9 $PPID; sleep 60")
        outcomes = await asyncio.gather(
            box.run(kill), box.run(command(workspace, "sleep", "60")), return_exceptions=True
        )
        assert all(isinstance(outcome, SandboxLostError) for outcome in outcomes)
        assert time.monotonic() - started < 5
        assert not box.alive


async def test_input_that_nobody_reads_holds_up_nothing(workspace: Path) -> None:
    async with runner(workspace, 2) as box:
        data = bytes(40 * MIB)
        deaf = asyncio.ensure_future(box.run(command(workspace, "sleep", "60", stdin=data)))
        await asyncio.sleep(0.2)
        assert await box.ping() < 5
        assert (await box.run(command(workspace, "md5sum", stdin=data))).ok
        started = time.monotonic()
        deaf.cancel()
        with pytest.raises(asyncio.CancelledError):
            await deaf
        assert time.monotonic() - started < 5  # the program sleeps for sixty
        assert (await box.run(command(workspace, "head", "-c", "3", stdin=data))).stdout == bytes(3)


async def test_a_program_is_talked_to_while_another_runs(workspace: Path) -> None:
    async with runner(workspace, 2) as box:
        heard = Heard()
        shell = command(workspace, "sh", "-c", 'read a; echo "got $a"; read b; exit 3')
        async with box.start(shell, on_output=heard) as process:
            assert (await box.run(command(workspace, "true"))).ok
            assert await process.write(b"one\n")
            await heard.something.wait()
            process.close_stdin()
            assert not await process.write(b"late")
            outcome = await process.wait()
        assert (bytes(heard.said), outcome.ending, outcome.stdout) == (b"got one\n", Exited(3), b"got one\n")
        assert await process.wait() == outcome


async def test_writing_waits_for_the_reader_and_ends_with_it(box: RunnerClient, workspace: Path) -> None:
    started = time.monotonic()
    async with box.start(command(workspace, "sh", "-c", "sleep 0.3; head -c 3000000 >/dev/null")) as process:
        assert await process.write(bytes(2 * MIB))
        assert time.monotonic() - started > 0.2
        with anyio.fail_after(5):
            assert not await process.write(bytes(50 * MIB))
        assert (await process.wait()).ok


async def test_a_writer_hears_that_the_input_was_closed(box: RunnerClient, workspace: Path) -> None:
    async with box.start(command(workspace, "sh", "-c", "exec <&-; sleep 60")) as process:
        with anyio.fail_after(5):
            await process.write(bytes(MIB))
            assert not await process.write(bytes(MIB))


async def test_writers_at_once_do_not_mix(box: RunnerClient, workspace: Path) -> None:
    async with box.start(command(workspace, "sh", "-c", "uniq -c | wc -l")) as process:
        lines = [b"%d\n" % n * 300_000 for n in range(4)]
        await asyncio.gather(*(process.write(line) for line in lines))
        process.close_stdin()
        assert (await process.wait()).stdout.strip() == b"4"


async def test_leaving_a_program_kills_it_and_a_cancelled_wait_does_not(
    box: RunnerClient, workspace: Path
) -> None:
    heard = Heard()
    sleeper = command(workspace, "sh", "-c", "echo $$; trap '' TERM HUP; sleep 60 & wait; sleep 60")
    async with box.start(sleeper, tty=TerminalSize(), on_output=heard) as process:
        await heard.something.wait()
        with anyio.move_on_after(0.05):
            await process.wait()
        process.signal("TERM")
        os.kill(int(heard.said), 0)
    with pytest.raises(ProcessLookupError):
        os.kill(int(heard.said), 0)
    assert (await process.wait()).ending == Stopped("cancelled")
    process.kill()
    process.resize(TerminalSize())
    assert (await box.run(command(workspace, "true"))).ok


async def test_a_terminal_is_what_was_asked_for(box: RunnerClient, workspace: Path) -> None:
    shell = command(workspace, "sh", "-c", "read x; stty size")
    async with box.start(shell, tty=TerminalSize(3, 7)) as process:
        process.resize(TerminalSize(30, 70))
        await process.write(b"\n")
        outcome = await process.wait()
    assert (outcome.stdout, outcome.stderr) == (b"\r\n30 70\r\n", b"")


async def test_an_end_that_was_waited_for_late_costs_nothing(box: RunnerClient, workspace: Path) -> None:
    async with box.start(command(workspace, "true")) as process:
        assert isinstance(process, RunnerProcess)
        async with asyncio.timeout(10):
            while not process._request.done:  # noqa: ASYNC110  # who does not wait for it is not told
                await asyncio.sleep(0.01)
        process._deadline = time.monotonic() - 1
        assert (await process.wait()).ok
    assert box.alive
