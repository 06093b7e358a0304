"""What a box that waits costs in memory: its programs and files, and the shim that Docker keeps beside it."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox_skills.spec import MIB
from tests.bench.report import Row
from tests.bench.scenarios import SPEC, alone

if TYPE_CHECKING:
    from tests.bench.scenarios import Bench

BOXES = 8


async def rows(bench: Bench) -> list[Row]:
    """Returns the memory of each of some boxes, as the kernel counts it for the container, and of their shims."""
    async with AsyncExitStack() as stack:
        boxes = [await stack.enter_async_context(bench.engine.open(SPEC)) for _ in range(BOXES)]
        await asyncio.sleep(1)
        inside = [await asyncio.to_thread(_used, bench, box.id) for box in boxes]
        beside = [await asyncio.to_thread(_shim, bench, box.id) for box in boxes]
    return [
        Row("idle box: memory of the container", tuple(inside), "MiB"),
        Row("idle box: memory of Docker's shim, its own share", tuple(beside), "MiB"),
    ]


def _used(bench: Bench, box: str) -> float:
    stats: dict[str, Any] = bench.client.stats(box, stream=False)
    return float(stats["memory_stats"]["usage"]) / MIB


def _shim(bench: Bench, box: str) -> float:
    """The proportional share: what shims have in common with each other is divided among them."""
    runner = Path("/proc", str(bench.client.inspect_container(box)["State"]["Pid"]))
    parent = runner.joinpath("stat").read_text().rpartition(") ")[2].split()[1]
    smaps = Path("/proc", parent, "smaps_rollup").read_text()
    kilobytes = next(line.split()[1] for line in smaps.splitlines() if line.startswith("Pss:"))
    return int(kilobytes) * 1024 / MIB


if __name__ == "__main__":
    sys.exit(alone(rows))
