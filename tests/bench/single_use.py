"""How many single-use boxes a second, by how many are on their way at once: `python -m tests.bench.single_use`.

For each runtime that the daemon has of those that we know, beside containers of the same that only sleep, and for
bubblewrap; what is compared is taken in turns.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sandbox_skills.engines.docker import DockerEngine, DockerEngineOptions
from sandbox_skills.engines.docker_client import connect
from sandbox_skills.engines.docker_config import CRUN, GVISOR
from sandbox_skills.errors import SandboxSkillsError
from sandbox_skills.spec import Command, SandboxSpec
from tests.bench import bubblewrap
from tests.bench.report import Bound, Row
from tests.bench.scenarios import REST_SECONDS, SPEC, Bench, alone
from tests.docker_host import connection

if TYPE_CHECKING:
    from sandbox_skills.engines.base import Engine

AT_ONCE = (1, 2, 4, 8)
ROUNDS = 3
BOXES = 16
"""Boxes of one sample: between one and three seconds of Docker's."""

RUNC = "runc"
RUNTIMES = (RUNC, CRUN, GVISOR)

LEAST = 0.8
"""Of the rate of containers in which nothing runs but `sleep`."""

LEAST_TIMES = 5.0
"""The rate of Docker's that bubblewrap must reach, four at once: Docker starts no more a second with more of them."""

TRUE = Command(("true",), env={"PATH": "/usr/bin:/bin"})


@dataclass(slots=True)
class Kind:
    """Boxes of one kind that can be made here, and how many a second were, by how many at once."""

    name: str
    engine: Engine
    spec: SandboxSpec = SPEC
    runtime: str = ""
    ours: dict[int, list[float]] = field(default_factory=dict[int, list[float]])
    bare: dict[int, list[float]] = field(default_factory=dict[int, list[float]])

    async def measure(self, bench: Bench, count: int) -> None:
        """Takes a sample of both."""
        if self.runtime:
            await asyncio.sleep(REST_SECONDS)
            taken = await asyncio.to_thread(_sleeping, bench, self.runtime, count)
            self.bare.setdefault(count, []).append(taken)
        await asyncio.sleep(REST_SECONDS)
        self.ours.setdefault(count, []).append(await _boxes(self.engine, self.spec, count))

    def row(self, count: int) -> Row:
        """Returns our rate, against that of bare containers where there are any."""
        own = Row(
            f"single-use runs of true by {self.name}, {count} at once", tuple(self.ours[count]), "a second"
        )
        if not self.runtime:
            return own
        share = own.p50 / self._bare(count).p50
        return replace(own, bounds=(Bound("ours ÷ bare", share, LEAST, at_most=False),))

    def rows(self, count: int) -> list[Row]:
        return [self._bare(count), self.row(count)] if self.runtime else [self.row(count)]

    def _bare(self, count: int) -> Row:
        name = f"Docker: create, start, kill, remove of `sleep` by {self.runtime}, {count} at once"
        return Row(name, tuple(self.bare[count]), "a second")


async def rows(bench: Bench) -> list[Row]:
    """Returns all rates; of a runtime that the daemon has not, or cannot start, the row says so."""
    await bench.pool.settled()
    kinds: list[Kind] = []
    missing: list[Row] = []
    async with AsyncExitStack() as stack:
        for runtime in RUNTIMES:
            found = await _runtime(bench, runtime, stack)
            kinds += [found] if isinstance(found, Kind) else []
            missing += [found] if isinstance(found, Row) else []
        kinds.append(Kind("bubblewrap", await stack.enter_async_context(bubblewrap.opened(bench))))
        for count in AT_ONCE:
            for _ in range(ROUNDS):
                for kind in kinds:
                    await kind.measure(bench, count)
    measured = [row for count in AT_ONCE for kind in kinds for row in kind.rows(count)]
    return [_faster(row, kinds[0]) for row in measured] + missing


def _faster(row: Row, first: Kind) -> Row:
    """Compares bubblewrap at four at once with the first of Docker's runtimes."""
    count = 4
    if row.name != f"single-use runs of true by bubblewrap, {count} at once" or not first.runtime:
        return row
    times = row.p50 / first.row(count).p50
    return replace(row, bounds=(Bound("bubblewrap ÷ Docker", times, LEAST_TIMES, at_most=False),))


async def _runtime(bench: Bench, name: str, stack: AsyncExitStack) -> Kind | Row:
    """Returns boxes of one of Docker's runtimes, of which a first one was made, or why there are none."""
    store = bench.store
    options = DockerEngineOptions(
        bench.folder / name,
        connection(),
        skills_dir=store.mount_dir,
        marker=store.marker(),
        runtime=name,
    )
    engine = DockerEngine(options)
    stack.push_async_callback(engine.aclose)
    try:
        await engine.probe()
        spec = replace(SPEC, needs=SPEC.needs & engine.guarantees)
        await _boxes(engine, spec, 1, boxes=1)
    except SandboxSkillsError as error:
        return Row(f"single-use runs of true by Docker with {name}", (), missing=str(error))
    return Kind(f"Docker with {name}", engine, spec, name)


async def _boxes(engine: Engine, spec: SandboxSpec, count: int, *, boxes: int = BOXES) -> float:
    left = iter(range(boxes))

    async def worker() -> None:
        for _ in left:
            async with engine.open(spec) as sandbox:
                assert (await sandbox.run(TRUE)).ok

    start = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(count)))
    return boxes / (time.perf_counter() - start)


def _sleeping(bench: Bench, runtime: str, count: int) -> float:
    left = iter(range(BOXES))

    def worker() -> None:
        client = connect(connection())
        for _ in left:
            bench.sleeping_container(client, runtime)
        client.close()

    threads = [threading.Thread(target=worker) for _ in range(count)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return BOXES / (time.perf_counter() - start)


if __name__ == "__main__":
    sys.exit(alone(rows))
