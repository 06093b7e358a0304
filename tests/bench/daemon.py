"""What the server adds to the library, and how many runs it does: `python -m tests.bench.daemon`.

Library and server are in one process, over one pool and on the loop that `serve` has, taken in turns: what else the
machine does hits both. The client is a bare one on a socket that stays open, and its time is in the server's figures.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import tempfile
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any, cast

import uvloop

from sandbox_skills.daemon.access.scopes import ALL_SCOPES
from sandbox_skills.daemon.serve import answering, listening
from sandbox_skills.daemon.working.daemon import opened_daemon
from sandbox_skills.engines.pool import PooledEngine
from sandbox_skills.settings import Settings
from sandbox_skills.workspace.manager import Argv, RunRequest
from sandbox_skills.workspace.output_spec import OutputRequest
from tests.bench.report import Bound, Row, as_markdown, machine, missed

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

    from sandbox_skills.daemon.working.daemon import Daemon
    from sandbox_skills.engines.base import Engine

ROOT = Path(__file__).parents[2]
SKILL = "python-math"
ROUNDS = 150
"""Pairs of samples of what takes some milliseconds."""

CLIENTS = {1: 2, 8: 2, 32: 1, 64: 1}
"""How often the four turns of library, server, server and library are taken for each number of clients: the more there
are, the more runs a turn has, and the longer it takes."""

SECONDS = 2.0
"""After which nobody asks again in a turn. It ends with its last run, so that none is cut: some dozen a figure."""

REST_SECONDS = 0.3
"""For which the number of boxes that wait has stayed the same before the next turn: each finds the pool as full."""

MOST_OVERHEAD = 5.0
"""Milliseconds that a run may cost more over HTTP: as much as a warm run itself, which people would notice."""

LEAST_SHARE = 0.85
"""Of the runs a second that the library does: what is missing is what the server costs."""

ORDER = {"skill": SKILL, "argv": ["true"]}
REQUEST = RunRequest(Argv(("true",)), wanted=OutputRequest())
"""The same by the library, which is to look for a file that answers as well: what the server does for each order."""


class Client(asyncio.Protocol):
    """One connection that stays open, and no more of HTTP than this server needs."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._come = bytearray()
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._come += data
        head, _, body = bytes(self._come).partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or -1)
        if len(body) == length and self._answer is not None:
            self._come.clear()
            self._answer.set_result((int(head.split(maxsplit=2)[1]), body))

    async def post(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Returns status and body of the answer."""
        data = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {self._key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(head.encode() + data)
        status, content = await self._answer
        told: dict[str, Any] = json.loads(content)
        return status, told

    def close(self) -> None:
        """Ends the connection."""
        if self._transport is not None:
            self._transport.close()


@dataclass(frozen=True, slots=True)
class Bench:
    """A server that answers, a tenant that may do all, and the library below."""

    daemon: Daemon
    port: int
    key: str
    tenant: str

    async def client(self, stack: AsyncExitStack) -> Client:
        loop = asyncio.get_running_loop()
        _, client = await loop.create_connection(lambda: Client(self.key), "127.0.0.1", self.port)
        stack.callback(client.close)
        return client


@asynccontextmanager
async def opened(folder: Path) -> AsyncGenerator[Bench]:
    settings = Settings.of({"data_dir": folder, "skills": {"roots": [ROOT / "skills"]}})
    async with opened_daemon(settings) as daemon:
        limits = {"concurrency": 1000, "runs_per_minute": 1_000_000}
        tenant = await daemon.tenants.create("bench", limits=limits, actor="bench")
        created = await daemon.keys.create(tenant.id, scopes=ALL_SCOPES, actor="bench")
        with listening("127.0.0.1", 0) as sock:
            async with answering(daemon, sock):
                yield Bench(daemon, sock.getsockname()[1], created.token, tenant.id)


async def overhead(bench: Bench) -> tuple[list[float], list[float]]:
    """Returns the seconds of runs in one session that is open, by the library and by the server, in turns."""
    daemon = bench.daemon
    async with AsyncExitStack() as stack:
        client = await bench.client(stack)
        _, made = await client.post("/v1/sessions", {})
        order = {**ORDER, "session_id": made["id"]}
        session = await daemon.sessions.opened(made["id"], tenant=bench.tenant)
        staged = await session.stage(ROOT / "skills" / SKILL)

        async def ask() -> None:
            status, run = await client.post("/v1/runs?wait=30", order)
            assert (status, run["outcome"]) == (200, {"type": "exited", "code": 0}), run

        async def call() -> None:
            assert (await session.run(staged, REQUEST)).outcome.ok

        library: list[float] = []
        server: list[float] = []
        for _ in range(10):
            await call()
            await ask()
        for _ in range(ROUNDS):
            library.append(await _timed(call))
            server.append(await _timed(ask))
    return library, server


async def _timed(work: Callable[[], Awaitable[None]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


@dataclass(frozen=True, slots=True)
class Turn:
    """What so many callers did in a while: seconds from the first start to the last end, and of each run; successes."""

    seconds: float
    times: list[float]
    good: int


@dataclass(frozen=True, slots=True)
class Level:
    """What so many callers got in all turns."""

    turns: list[Turn]

    @property
    def per_second(self) -> float:
        """Runs that succeeded by the seconds of all turns."""
        return sum(turn.good for turn in self.turns) / sum(turn.seconds for turn in self.turns)

    @property
    def each(self) -> tuple[float, ...]:
        """The same of every turn, which shows how much they differ."""
        return tuple(turn.good / turn.seconds for turn in self.turns)

    @property
    def times(self) -> list[float]:
        """Seconds of every run."""
        return [seconds for turn in self.turns for seconds in turn.times]

    @property
    def success(self) -> float:
        """The share of runs that succeeded."""
        return sum(turn.good for turn in self.turns) / len(self.times)


async def turn(callers: list[Callable[[], Awaitable[bool]]]) -> Turn:
    """Lets every caller ask again and again for SECONDS."""
    times: list[float] = []
    good = 0

    async def again(call: Callable[[], Awaitable[bool]]) -> None:
        nonlocal good
        while (asked := time.perf_counter()) < began + SECONDS:
            is_good = await call()  # first: a sum that waits has the count of before
            good += is_good
            times.append(time.perf_counter() - asked)

    began = time.perf_counter()
    await asyncio.gather(*map(again, callers))
    return Turn(time.perf_counter() - began, times, good)


async def throughput(bench: Bench, clients: int, *, times: int) -> tuple[Level, Level]:
    """Returns what so many callers get of the library, as many at once as the server has slots, and of the server."""
    slots = asyncio.Semaphore(bench.daemon.settings.daemon.slots)
    folder = ROOT / "skills" / SKILL

    async def call() -> bool:
        async with slots:
            return (await bench.daemon.live.manager.run(folder, REQUEST, tenant=bench.tenant)).outcome.ok

    async def by_library() -> Turn:
        return await turn([call] * clients)

    async def by_server() -> Turn:
        async with AsyncExitStack() as stack:
            # Only now: a connection that asks for nothing is given up.
            return await turn([_asking(await bench.client(stack)) for _ in range(clients)])

    found: dict[Callable[[], Awaitable[Turn]], list[Turn]] = {by_library: [], by_server: []}
    for way in (by_library, by_server, by_server, by_library) * times:
        await _rested(bench.daemon.live.engine)
        found[way].append(await way())
    return Level(found[by_library]), Level(found[by_server])


def _asking(client: Client) -> Callable[[], Awaitable[bool]]:
    async def ask() -> bool:
        status, run = await client.post("/v1/runs?wait=60", ORDER)
        return status == 200 and run["outcome"] == {"type": "exited", "code": 0}

    return ask


async def _rested(engine: Engine) -> None:
    """Returns once no box is being ended or started."""
    assert isinstance(engine, PooledEngine)
    idle = -1
    while engine.idle != idle:
        await engine.settled()
        idle = engine.idle
        await asyncio.sleep(REST_SECONDS)


async def rows(folder: Path) -> list[Row]:
    """Measures what the server adds to a run, and for each number of clients how many runs a second it does."""
    async with opened(folder) as bench:
        gc.freeze()  # as `serve` does
        return [*_overhead_rows(*await overhead(bench)), *[row async for row in _throughput_rows(bench)]]


def _overhead_rows(library: list[float], server: list[float]) -> list[Row]:
    below, above = (tuple(seconds * 1e3 for seconds in taken) for taken in (library, server))
    added = Bound("server - library in ms", median(above) - median(below), MOST_OVERHEAD, at_most=True)
    return [
        Row("run in an open session, by the library that the server has", below),
        Row("the same over HTTP with ?wait", above, bounds=(added,)),
    ]


async def _throughput_rows(bench: Bench) -> AsyncIterator[Row]:
    for clients, times in CLIENTS.items():
        below, above = await throughput(bench, clients, times=times)
        share = Bound("server ÷ library", above.per_second / below.per_second, LEAST_SHARE, at_most=False)
        good = Bound("successes ÷ runs", above.success, 1.0, at_most=False)
        for who, what, bounds in (("the library", below, ()), ("the server", above, (share, good))):
            p99 = quantiles(what.times, n=100)[98]
            name = f"runs by {who}, {clients} at the same time, p99 {p99 * 1e3:.0f} ms"
            yield Row(name, what.each, f"a second, {len(what.times)} runs", bounds)


def measured() -> list[Row]:
    """Measures every row on the loop that `serve` has."""
    with (
        tempfile.TemporaryDirectory(prefix="sandbox-skills-bench-") as folder,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        return runner.run(rows(Path(folder)))


def main() -> int:
    """Prints the rows; returns 1 where a bound is missed."""
    found = measured()
    sys.stdout.write(as_markdown(found, machine()))
    return 1 if missed(found) else 0


if __name__ == "__main__":
    sys.exit(main())
