"""Single-use boxes of bubblewrap beside those of Docker, in turns: how soon one is there, and how many a second."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from sandbox_skills.engines.bubblewrap import BubblewrapEngine, BubblewrapEngineOptions
from sandbox_skills.engines.bubblewrap.export import provide
from sandbox_skills.engines.bubblewrap.rootfs import Wanted
from sandbox_skills.spec import Command
from tests.bench.report import Bound, Row
from tests.bench.scenarios import REST_SECONDS, ROUNDS, SPEC

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sandbox_skills.engines.base import Engine
    from tests.bench.scenarios import Bench

TRUE = Command(("true",), env={"PATH": "/usr/bin:/bin"})

AT_ONCE = 4
"""Boxes on their way side by side: Docker starts no more a second with more of them."""

RATE_ROUNDS = 5
RATE_BOXES = 40
"""Boxes of one sample of a rate: at Docker's twelve a second three seconds."""


async def rows(bench: Bench) -> list[Row]:
    """Returns starts and rates of both engines; the pool is not asked for anything meanwhile."""
    async with opened(bench) as engine:
        await bench.pool.settled()
        docker, own = await _starts(bench.engine, engine)
        docker_rate, own_rate = await _rates(bench.engine, engine)
    start = Bound("bubblewrap ÷ Docker", own.p50 / docker.p50, 0.2, at_most=True)
    rate = Bound("bubblewrap ÷ Docker", own_rate.p50 / docker_rate.p50, 5.0, at_most=False)
    return [docker, replace(own, bounds=(start,)), docker_rate, replace(own_rate, bounds=(rate,))]


@asynccontextmanager
async def opened(bench: Bench) -> AsyncIterator[BubblewrapEngine]:
    """Makes an engine on the bench's store, with its root file system exported, and ends it."""
    folder = bench.folder / "rootfs"
    await asyncio.to_thread(provide, bench.client, folder, Wanted())
    options = BubblewrapEngineOptions(
        bench.folder / "bubblewrap", bench.store.mount_dir, bench.store.marker(), rootfs_dir=folder
    )
    engine = BubblewrapEngine(options)
    try:
        yield engine
    finally:
        await engine.aclose()


async def _starts(docker: Engine, own: Engine) -> tuple[Row, Row]:
    """From asking for a box to its runner's first word, checked from inside; the end is not counted."""
    samples: dict[str, list[float]] = {"docker": [], "bubblewrap": []}
    for _ in range(ROUNDS):
        for name, engine in (("docker", docker), ("bubblewrap", own)):
            await asyncio.sleep(REST_SECONDS)
            start = time.perf_counter()
            async with engine.open(SPEC):
                samples[name].append((time.perf_counter() - start) * 1000)
    return (
        Row("Docker: start of a single-use sandbox", tuple(samples["docker"])),
        Row("bubblewrap: the same", tuple(samples["bubblewrap"])),
    )


async def _rates(docker: Engine, own: Engine) -> tuple[Row, Row]:
    samples: dict[str, list[float]] = {"docker": [], "bubblewrap": []}
    for _ in range(RATE_ROUNDS):
        for name, engine in (("docker", docker), ("bubblewrap", own)):
            await asyncio.sleep(REST_SECONDS)
            samples[name].append(await _rate(engine))
    return (
        Row(f"Docker: single-use runs of true, {AT_ONCE} at once", tuple(samples["docker"]), "a second"),
        Row("bubblewrap: the same", tuple(samples["bubblewrap"]), "a second"),
    )


async def _rate(engine: Engine) -> float:
    left = iter(range(RATE_BOXES))

    async def worker() -> None:
        for _ in left:
            async with engine.open(SPEC) as sandbox:
                assert (await sandbox.run(TRUE)).ok

    start = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
    return RATE_BOXES / (time.perf_counter() - start)
