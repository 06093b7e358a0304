"""How soon a single-use box of bubblewrap is there, beside one of Docker, in turns."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from sandbox_skills.engines.bubblewrap import BubblewrapEngine, BubblewrapEngineOptions
from sandbox_skills.engines.bubblewrap.export import provide
from sandbox_skills.engines.bubblewrap.rootfs import Wanted
from tests.bench.report import Bound, Row
from tests.bench.scenarios import REST_SECONDS, ROUNDS, SPEC

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sandbox_skills.engines.base import Engine
    from tests.bench.scenarios import Bench


async def rows(bench: Bench) -> list[Row]:
    """Returns the starts of both engines; the pool is not asked for anything meanwhile."""
    async with opened(bench) as engine:
        await bench.rested()
        docker, own = await _starts(bench.engine, engine)
    start = Bound("start by bubblewrap ÷ by Docker", own.p50 / docker.p50, 0.2, at_most=True)
    return [docker, replace(own, bounds=(start,))]


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
        Row("bubblewrap: start of a single-use sandbox", tuple(samples["bubblewrap"])),
    )
