"""A single-use run out of the pool, beside a host process and a `docker exec`: `python -m tests.bench.pooled`."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import replace

from sandbox_skills.workspace.manager import WorkspaceManager
from tests.bench import docker_cli
from tests.bench.report import Bound, Row
from tests.bench.scenarios import ROUNDS, SPEC, Bench, alone, timed


async def rows(bench: Bench) -> list[Row]:
    """`true` in each of the three ways, in turns, each when the pool and Docker have come to rest."""
    manager = WorkspaceManager(bench.pool, bench.store, spec=SPEC)
    host: list[float] = []
    warm: list[float] = []
    execs: list[float | None] = []
    with bench.container() as name:
        for _ in range(ROUNDS):
            await bench.rested()
            host.append(timed(lambda: subprocess.run(["true"], check=True)))
            execs.append(await asyncio.to_thread(docker_cli.exec_true, name))
            await bench.rested()
            warm.append(await bench.run(manager))
    return _compared(
        Row("host: subprocess.run(['true'])", tuple(host)),
        Row("warm: pooled run of true", tuple(warm)),
        docker_cli.row("docker exec: true, beside the pooled run", execs),
    )


def _compared(host: Row, warm: Row, execs: Row) -> list[Row]:
    bounds = [Bound("warm ÷ host", warm.p50 / host.p50, 4.0, at_most=True)]
    if execs.samples:
        bounds.append(Bound("docker exec ÷ warm", execs.p50 / warm.p50, 20.0, at_most=False))
    return [host, replace(warm, bounds=tuple(bounds)), execs]


if __name__ == "__main__":
    sys.exit(alone(rows))
