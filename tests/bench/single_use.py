"""How many single-use boxes a second, by how many are on their way at once, beside containers that only sleep.

For each runtime that the daemon has of those that we know.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from dataclasses import replace

from sandbox_skills.engines.docker_client import connect
from sandbox_skills.spec import Command
from tests.bench.report import Bound, Row
from tests.bench.scenarios import REST_SECONDS, SPEC, Bench, alone
from tests.docker_host import connection

AT_ONCE = (1, 2, 4, 8)
ROUNDS = 3
BOXES = 16
"""Boxes of one sample: between one and three seconds."""

TRUE = Command(("true",), env={"PATH": "/usr/bin:/bin"})


async def rows(bench: Bench) -> list[Row]:
    """Returns both rates for each number at once, in turns."""
    await bench.pool.settled()
    return [row for count in AT_ONCE for row in await _pair(bench, count)]


async def _pair(bench: Bench, count: int) -> list[Row]:
    ours: list[float] = []
    raw: list[float] = []
    for _ in range(ROUNDS):
        await asyncio.sleep(REST_SECONDS)
        raw.append(await asyncio.to_thread(_sleeping, bench, count))
        await asyncio.sleep(REST_SECONDS)
        ours.append(await _boxes(bench, count))
    bare = Row(f"Docker: create, start, kill, remove of `sleep`, {count} at once", tuple(raw), "a second")
    own = Row(f"single-use runs of true, {count} at once", tuple(ours), "a second")
    bound = Bound("ours ÷ bare", own.p50 / bare.p50, 0.8, at_most=False)
    return [bare, replace(own, bounds=(bound,))]


async def _boxes(bench: Bench, count: int) -> float:
    left = iter(range(BOXES))

    async def worker() -> None:
        for _ in left:
            async with bench.engine.open(SPEC) as sandbox:
                assert (await sandbox.run(TRUE)).ok

    start = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(count)))
    return BOXES / (time.perf_counter() - start)


def _sleeping(bench: Bench, count: int) -> float:
    left = iter(range(BOXES))

    def worker() -> None:
        client = connect(connection())
        for _ in left:
            bench.sleeping_container(client)
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
