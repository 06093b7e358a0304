"""A run in an open session, by each channel, beside the host's own process: `python -m tests.bench.warm`."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from asyncio.subprocess import DEVNULL, PIPE
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from sandbox_skills.engines.docker import DockerEngine, DockerEngineOptions
from sandbox_skills.workspace.manager import Argv, RunRequest, WorkspaceManager
from tests.bench.report import Bound, Row
from tests.bench.scenarios import SPEC, TENANT, TRUE, Bench, alone, timed, timed_async
from tests.docker_host import connection

if TYPE_CHECKING:
    from sandbox_skills.workspace.session import Session
    from sandbox_skills.workspace.staging import StagedSkill

Channel = Literal["socket", "attach"]
CHANNELS: tuple[Channel, ...] = ("socket", "attach")

ROUNDS = 200
"""Samples of what takes a millisecond: the median is then known to a few per cent."""

SLOW_ROUNDS = 30
"""Samples of what takes tens of milliseconds."""

REQUESTS = {
    "true, out/* asked for and nothing there": replace(TRUE, outputs=("out/*",)),
    "python3 -c pass": RunRequest(Argv(("python3", "-c", "pass"))),
    "node -e 0": RunRequest(Argv(("node", "-e", "0"))),
}


class Warm:
    """A session on each channel, each in a box of its own."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._sessions: dict[Channel, tuple[Session, StagedSkill]] = {}

    async def open(self, stack: AsyncExitStack) -> None:
        """Opens the sessions, which last as long as `stack`."""
        engines = {"socket": self._bench.engine, "attach": self._attached()}
        stack.push_async_callback(engines["attach"].aclose)
        for channel in CHANNELS:
            manager = WorkspaceManager(engines[channel], self._bench.store, spec=SPEC)
            session = await stack.enter_async_context(manager.session(tenant=TENANT))
            assert engines[channel].channel == channel
            self._sessions[channel] = session, await session.stage(self._bench.skill)

    def _attached(self) -> DockerEngine:
        store = self._bench.store
        usual = DockerEngineOptions(
            self._bench.folder / "attached",
            connection(),
            skills_dir=store.mount_dir,
            marker=store.marker(),
            channel="attach",
        )
        return DockerEngine(usual)

    async def run(self, channel: Channel, request: RunRequest) -> float:
        """Returns the milliseconds of one run through the public interface."""
        session, staged = self._sessions[channel]

        async def once() -> None:
            result = await session.run(staged, request)
            assert result.outcome.ok

        return await timed_async(once)


async def rows(bench: Bench) -> list[Row]:
    """Measures the runs and what they are compared with, in turns, while no box is being started."""
    await bench.pool.settled()
    async with AsyncExitStack() as stack:
        warm = Warm(bench)
        await warm.open(stack)
        container = stack.enter_context(bench.container())
        host, own, runs = await _true(warm)
        execs = [await asyncio.to_thread(timed, lambda: bench.execute(container)) for _ in range(SLOW_ROUNDS)]
        removed = [await asyncio.to_thread(timed, bench.run_rm) for _ in range(SLOW_ROUNDS)]
        others = [row for name in REQUESTS for row in await _of(warm, name)]
    return [own, *_compared(host, runs, Row("", tuple(execs)), Row("", tuple(removed))), *others]


async def _true(warm: Warm) -> tuple[Row, Row, dict[Channel, Row]]:
    host: list[float] = []
    own: list[float] = []
    runs: dict[Channel, list[float]] = {channel: [] for channel in CHANNELS}
    for _ in range(ROUNDS):
        for channel in CHANNELS:
            host.append(timed(lambda: subprocess.run(["true"], check=True)))
            runs[channel].append(await warm.run(channel, TRUE))
        own.append(await timed_async(_by_asyncio))
    return (
        Row("host: subprocess.run(['true']), beside the next", tuple(host)),
        Row("host: true by asyncio, which is what an asynchronous program has, output captured", tuple(own)),
        {
            channel: Row(f"warm: true in a session, by {channel}", tuple(samples))
            for channel, samples in runs.items()
        },
    )


async def _by_asyncio() -> None:
    process = await asyncio.create_subprocess_exec("true", stdin=DEVNULL, stdout=PIPE, stderr=PIPE)
    await process.communicate()
    assert process.returncode == 0


async def _of(warm: Warm, what: str) -> list[Row]:
    samples: dict[Channel, list[float]] = {channel: [] for channel in CHANNELS}
    for _ in range(SLOW_ROUNDS):
        for channel in CHANNELS:
            samples[channel].append(await warm.run(channel, REQUESTS[what]))
    return [Row(f"warm: {what}, in a session, by {name}", tuple(found)) for name, found in samples.items()]


def _compared(host: Row, runs: dict[Channel, Row], execs: Row, removed: Row) -> list[Row]:
    socket, attach = runs["socket"], runs["attach"]
    bounds = (
        Bound("warm by socket ÷ host", socket.p50 / host.p50, 1.5, at_most=True),
        Bound("docker exec ÷ warm by socket", execs.p50 / socket.p50, 40, at_most=False),
        Bound("docker run --rm ÷ warm by socket", removed.p50 / socket.p50, 150, at_most=False),
    )
    bound = Bound("warm by attach ÷ host", attach.p50 / host.p50, 2.5, at_most=True)
    return [host, replace(socket, bounds=bounds), replace(attach, bounds=(bound,))]


if __name__ == "__main__":
    sys.exit(alone(rows))
