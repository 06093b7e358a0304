"""`make soak`: eight tenants work while the daemon is killed three times and its dockerd is started again.

At the end no record may be lost and nothing be left; memory and descriptors of the last life must be flat. Exit 1
where that does not hold.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from sandbox_skills.client import ServerOptions, SkillsClient
from sandbox_skills.engines.docker_client import connect
from sandbox_skills.engines.image import image_tag
from tests.conftest import Program
from tests.docker_host import connection
from tests.own_daemon import OwnDaemon
from tests.soak.ledger import Ledger
from tests.soak.server import Server
from tests.soak.verdict import Verdict, judged
from tests.soak.work import PATIENCE, Tenant

if TYPE_CHECKING:
    from collections.abc import Callable

TENANTS = 8

KILLS = (0.15, 0.35, 0.5)
"""When the daemon is killed, as parts of the time: its last life is half of it, long enough to see it grow."""

DOCKER_RESTART = 0.25

SAMPLE_SECONDS = 5.0


class Soak:
    """One soak over a daemon that runs."""

    def __init__(self, server: Server, seconds: float) -> None:
        self._server = server
        self._seconds = seconds
        self._until = 0.0
        self._faults: Counter[str] = Counter()

    async def run(self) -> Verdict:
        """Lets everybody work, injects the faults, and looks at what is left."""
        keys = [self._server.tenant_key(f"tenant-{number}") for number in range(TENANTS)]
        ledgers = [Ledger() for _ in keys]
        self._until = time.monotonic() + self._seconds
        async with anyio.create_task_group() as group:
            for seed, (key, ledger) in enumerate(zip(keys, ledgers, strict=True)):
                group.start_soon(Tenant(self._server.url, key, ledger, seed).go_on, self._over)
            group.start_soon(self._inject)
            group.start_soon(self._look)
        lost = [
            one for key, ledger in zip(keys, ledgers, strict=True) for one in await self._lost(key, ledger)
        ]
        samples = list(self._server.samples)
        code = await to_thread.run_sync(self._server.stop)
        verdict = judged(ledgers, lost, self._server.leaks(), samples, self._faults)
        if code != 0:
            verdict.faults.append(f"the daemon ended with {code}: see {self._server.log}")
        return verdict

    def _over(self) -> bool:
        return time.monotonic() >= self._until

    async def _lost(self, key: str, ledger: Ledger) -> list[str]:
        async with SkillsClient(ServerOptions(self._server.url, key, retry=PATIENCE)) as client:
            return await ledger.lost(client)

    async def _inject(self) -> None:
        begun = self._until - self._seconds
        plan: list[tuple[float, str, Callable[[], None]]] = [
            *((part, "kill -9 of the daemon", self._kill) for part in KILLS),
            (DOCKER_RESTART, "dockerd started again", self._restart_docker),
        ]
        for part, name, inject in sorted(plan, key=lambda row: row[0]):
            await anyio.sleep(max(0.0, begun + part * self._seconds - time.monotonic()))
            _say(f"{name} after {time.monotonic() - begun:.0f} s")
            await to_thread.run_sync(inject)
            self._faults[name] += 1

    def _kill(self) -> None:
        self._server.kill()
        self._server.start()

    def _restart_docker(self) -> None:
        self._server.docker.end(signal.SIGTERM)
        self._server.docker.start()

    async def _look(self) -> None:
        while not self._over():
            try:
                sample = self._server.sample()
            except (OSError, ValueError):
                pass  # it is being killed just now
            else:
                if len(self._server.samples) % 12 == 0:
                    left = self._until - time.monotonic()
                    _say(f"{left:.0f} s to go: {sample.rss >> 20} MiB, {sample.fds} descriptors")
            await anyio.sleep(SAMPLE_SECONDS)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _load_image(docker: OwnDaemon) -> None:
    with connect(connection()) as client:
        docker.load(client.get_image(image_tag("slim")))


def main() -> int:
    """Prints the table; returns 1 where something was lost, left or gathered."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument(
        "--minutes", type=float, default=30.0, help="how long the tenants work; 30 by default"
    )
    minutes: float = parser.parse_args().minutes
    with tempfile.TemporaryDirectory(prefix="soak-") as folder, ExitStack() as stack:
        root = Path(folder)
        for name in ("home", "data", "docker"):
            (root / name).mkdir()
        docker = OwnDaemon(root / "docker")
        stack.callback(docker.close)
        _load_image(docker)
        server = Server(Program(root / "home", root / "data", root), docker, root / "serve.log")
        stack.callback(server.close)
        server.start()
        verdict = anyio.run(partial(Soak(server, minutes * 60).run))
        sys.stdout.write(f"{minutes:g} minutes\n\n{verdict.table()}")
        if verdict.faults:
            _say(server.log.read_text(encoding="utf-8", errors="replace")[-4000:])
    return 1 if verdict.faults else 0


if __name__ == "__main__":
    sys.exit(main())
