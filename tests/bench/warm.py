"""A run in an open session, by each channel, beside the host's own process: `python -m tests.bench.warm`."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from asyncio.subprocess import DEVNULL, PIPE
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from sandbox_skills.engines.docker import DockerEngine, DockerEngineOptions
from sandbox_skills.workspace.manager import Argv, RunRequest, WorkspaceManager
from tests.bench import docker_cli
from tests.bench.report import Bound, Row
from tests.bench.scenarios import SPEC, TENANT, TRUE, Bench, alone, timed, timed_async
from tests.docker_host import connection

if TYPE_CHECKING:
    from sandbox_skills.workspace.session import Session
    from sandbox_skills.workspace.staging import StagedSkill

Channel = Literal["socket", "attach"]
CHANNELS: tuple[Channel, ...] = ("socket", "attach")

SLOW_ROUNDS = 30
"""Samples of what takes tens of milliseconds."""

ROUNDS = 200
"""Samples of what takes some milliseconds: the median is then known to a few per cent."""

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
    """Measures `true` each way, and the other programs: runs in pairs with the host, then Docker's commands in turns.

    What Docker does goes on for a while after it has answered, so that a run beside a command would pay for it.
    """
    commands, runs = Commands(), Runs()
    async with AsyncExitStack() as stack:
        warm = Warm(bench)
        await warm.open(stack)
        await bench.rested()
        await runs.take(warm)
        container = stack.enter_context(bench.container())
        for _ in range(SLOW_ROUNDS):
            await asyncio.to_thread(commands.take, bench, container)
        await bench.rested()
        others = [row for name in REQUESTS for row in await _of(warm, name)]
    return [*_compared(runs, commands), *others]


@dataclass(slots=True)
class Commands:
    """`true` by Docker: as a user types it, and by the calls of docker-py for each."""

    execs: list[float | None] = field(default_factory=list[float | None])
    runs: list[float | None] = field(default_factory=list[float | None])
    called: list[float] = field(default_factory=list[float])
    made: list[float] = field(default_factory=list[float])

    def take(self, bench: Bench, container: str) -> None:
        """Takes a sample of each."""
        self.execs.append(docker_cli.exec_true(container))
        self.called.append(timed(lambda: bench.execute(container)))
        self.runs.append(docker_cli.run_true(bench.image))
        self.made.append(timed(bench.run_rm))

    def rows(self) -> tuple[Row, Row, Row, Row]:
        return (
            docker_cli.row("docker exec: true in a container that runs", self.execs),
            docker_cli.row("docker run --rm: true in a container of its own", self.runs),
            Row("docker-py: exec of true", tuple(self.called)),
            Row("docker-py: create, start, wait, remove of true", tuple(self.made)),
        )


@dataclass(slots=True)
class Runs:
    """`true` by the host and in a session, in pairs: whatever else runs between empties the caches of both."""

    own: list[float] = field(default_factory=list[float])
    host: dict[Channel, list[float]] = field(default_factory=lambda: {channel: [] for channel in CHANNELS})
    warm: dict[Channel, list[float]] = field(default_factory=lambda: {channel: [] for channel in CHANNELS})

    async def take(self, warm: Warm) -> None:
        """Takes pairs by each channel, and the host's by asyncio."""
        for channel in CHANNELS:
            for _ in range(ROUNDS):
                self.host[channel].append(timed(lambda: subprocess.run(["true"], check=True)))
                self.warm[channel].append(await warm.run(channel, TRUE))
        for _ in range(ROUNDS):
            self.own.append(await timed_async(_by_asyncio))

    def rows(self) -> tuple[Row, ...]:
        """Returns the host's by asyncio, then for each channel the host's beside it and the run by it."""
        return (
            Row(
                "host: true by asyncio, which is what an asynchronous program has, output captured",
                tuple(self.own),
            ),
            Row("host: subprocess.run(['true']), beside the socket", tuple(self.host["socket"])),
            Row("warm: true in a session, by socket", tuple(self.warm["socket"])),
            Row("host: subprocess.run(['true']), beside attach", tuple(self.host["attach"])),
            Row("warm: true in a session, by attach", tuple(self.warm["attach"])),
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


def _compared(runs: Runs, commands: Commands) -> list[Row]:
    own, beside_socket, socket, beside_attach, attach = runs.rows()
    bounds = [Bound("warm by socket ÷ host", socket.p50 / beside_socket.p50, 1.5, at_most=True)]
    execs, removed, *called = commands.rows()
    for text, command, least in (
        ("docker exec ÷ warm by socket", execs, 40),
        ("docker run --rm ÷ warm by socket", removed, 150),
    ):
        if command.samples:
            bounds.append(Bound(text, command.p50 / socket.p50, least, at_most=False))
    bound = Bound("warm by attach ÷ host", attach.p50 / beside_attach.p50, 2.5, at_most=True)
    socket, attach = replace(socket, bounds=tuple(bounds)), replace(attach, bounds=(bound,))
    return [own, beside_socket, socket, beside_attach, attach, execs, removed, *called]


if __name__ == "__main__":
    sys.exit(alone(rows))
