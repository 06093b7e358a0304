"""What waits costs in memory: a box, with its programs and files and Docker's shim beside it; and an open session."""

from __future__ import annotations

import asyncio
import gc
import sys
import tracemalloc
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox_skills.engines.fake import FakeEngine
from sandbox_skills.spec import KIB, MIB, SandboxSpec
from sandbox_skills.workspace.choices import SessionPolicy
from sandbox_skills.workspace.manager import WorkspaceManager
from sandbox_skills.workspace.sessions import SessionManager
from tests.bench.report import Bound, Row
from tests.bench.scenarios import SPEC, TENANT, TRUE, alone

if TYPE_CHECKING:
    from tests.bench.scenarios import Bench

BOXES = 8
SESSIONS = 1000
SESSION_KIB = 50
"""What the host may keep of a session that nobody uses, its box not counted."""


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
        await _sessions(bench),
    ]


async def _sessions(bench: Bench) -> Row:
    """What the host keeps of each of many open sessions that have run something, without their boxes."""
    engine, spec = FakeEngine(), SandboxSpec(needs=frozenset())
    manager = WorkspaceManager(engine, bench.store, spec=spec)
    policy = SessionPolicy(max_per_tenant=SESSIONS)
    async with AsyncExitStack() as stack:
        tracemalloc.start()
        stack.callback(tracemalloc.stop)
        start = _traced()
        for _ in range(SESSIONS):
            await stack.enter_async_context(engine.open(spec))
        boxes = _traced()
        sessions = await stack.enter_async_context(SessionManager(manager, policy=policy))
        for number in range(SESSIONS):
            session = await sessions.open(f"s{number}", tenant=TENANT)
            await session.run(await session.stage(bench.skill), TRUE)
        each = (_traced() - boxes - (boxes - start)) / SESSIONS / KIB
    bound = Bound("KiB", each, SESSION_KIB, at_most=True)
    return Row(f"open session, of {SESSIONS:,}: memory of the host without its box", (each,), "KiB", (bound,))


def _traced() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


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
