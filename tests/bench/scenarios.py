"""The things that are measured, each through the public interface of what it stands for."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
import time
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox_skills.engines import image
from sandbox_skills.engines.docker import DockerEngine, DockerEngineOptions
from sandbox_skills.engines.docker_client import connect
from sandbox_skills.engines.docker_config import DockerOptions, create_body, seccomp_profile
from sandbox_skills.engines.pool import PooledEngine
from sandbox_skills.spec import KIB, MIB, CollectLimits, Limits, SandboxId, SandboxLimits, SandboxSpec
from sandbox_skills.workspace.manager import Argv, RunRequest, Shell, WorkspaceManager
from sandbox_skills.workspace.staging import SkillStore
from tests.bench.report import Bound, Row, as_markdown, machine, missed
from tests.docker_host import connection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    import docker

ROUNDS = 40
"""Samples of a row: above the 30 that a p95 needs to mean anything."""

REST_SECONDS = 0.1
"""After the daemon was busy: it goes on cleaning up for a moment after it has answered."""

BIG = 64 * MIB
MANY = 1000
SMALL = 4 * KIB
FLOOD = 1024 * MIB
TENANT = "bench"
TRUE = RunRequest(Argv(("true",)))
SPEC = SandboxSpec(limits=SandboxLimits(memory=768 * MIB))


@dataclass(slots=True)
class Bench:
    """Everything the scenarios share."""

    folder: Path
    client: docker.APIClient
    store: SkillStore
    engine: DockerEngine
    pool: PooledEngine
    skill: Path
    medians: dict[str, float] = field(default_factory=dict[str, float])

    @classmethod
    @asynccontextmanager
    async def opened(cls, folder: Path) -> AsyncIterator[Bench]:
        """Makes a store, an engine and a warm pool, and ends them."""
        store = SkillStore(folder / "store")
        options = DockerEngineOptions(
            folder / "engine", connection(), skills_dir=store.mount_dir, marker=store.marker()
        )
        skill = folder / "skill"
        skill.mkdir()
        (skill / "SKILL.md").write_text("---\nname: skill\ndescription: Nothing.\n---\n", encoding="utf-8")
        engine = DockerEngine(options)
        async with PooledEngine(engine, SPEC, size=2) as pool:
            yield cls(folder, connect(connection()), store, engine, pool, skill)

    async def rows(self) -> list[Row]:
        """Measures every row, in the order of the table."""
        return [row async for row in self._rows()]

    async def _rows(self) -> AsyncIterator[Row]:
        raw, cold = await self.raw_and_cold()
        yield raw
        yield replace(cold, bounds=(Bound("cold ÷ raw", cold.p50 / raw.p50, 1.3, at_most=True),))
        archive, collect = await self.archive_and_collect()
        yield archive
        ratio = collect.p50 / archive.p50
        yield replace(collect, bounds=(Bound("collect ÷ get_archive", ratio, 2.0, at_most=False),))
        archive, collect = await self.many_files()
        yield archive
        ratio = collect.p50 / archive.p50
        yield replace(collect, bounds=(Bound("time of many files ÷ get_archive", ratio, 0.3, at_most=True),))
        for name, live in (("kept", False), ("streamed live", True)):
            grown = await self.flood(live=live)
            bound = Bound("growth in MiB", grown, 32.0, at_most=True)
            yield Row(f"host memory for 1 GiB of output, {name}", (grown,), "MiB", (bound,))

    async def raw_and_cold(self) -> tuple[Row, Row]:
        """Docker's own cost of the same container, and a run without a pool, in turns."""
        await self.pool.filled()
        raw: list[float] = []
        cold: list[float] = []
        manager = WorkspaceManager(self.engine, self.store, spec=SPEC)
        for _ in range(ROUNDS):
            raw.append(await asyncio.to_thread(timed, self._raw_container))
            cold.append(await self.run(manager))
        return Row("Docker: create, start, kill, remove", tuple(raw)), Row("cold: run of true", tuple(cold))

    async def archive_and_collect(self) -> tuple[Row, Row]:
        """64 MiB out of a volume by Docker's archive, and out of a workspace by a collection."""
        archive: list[float] = []
        collect: list[float] = []
        limits = CollectLimits(file_bytes=BIG, total_bytes=BIG)
        manager = WorkspaceManager(self.pool, self.store, spec=SPEC)
        with self.container(volume=True) as name:
            self.execute(name, f"head -c {BIG} /dev/urandom > /data/big")
            async with manager.session(tenant=TENANT) as session:
                staged = await session.stage(self.skill)
                await session.run(staged, RunRequest(Shell(f"head -c {BIG} /dev/urandom > out/big")))
                request = replace(TRUE, outputs=("out/*",), out_dir=self.folder / "out", collect=limits)
                for _ in range(ROUNDS):
                    seconds = await asyncio.to_thread(timed, lambda: self._archive(name))
                    archive.append(BIG / MIB / seconds * 1000)
                    seconds = await timed_async(lambda: session.run(staged, request))
                    collect.append(BIG / MIB / seconds * 1000)
        assert (self.folder / "out" / "out" / "big").stat().st_size == BIG
        return (
            Row("get_archive of 64 MiB from a volume", tuple(archive), "MiB/s"),
            Row("collection of 64 MiB, with its run", tuple(collect), "MiB/s"),
        )

    async def many_files(self) -> tuple[Row, Row]:
        """1,000 files of 4 KiB by Docker's archive of a volume, and by a collection of a workspace, in turns."""
        archive: list[float] = []
        collect: list[float] = []
        limits = CollectLimits(files=MANY)
        manager = WorkspaceManager(self.pool, self.store, spec=SPEC)
        make = f"for n in $(seq {MANY}); do head -c {SMALL} /dev/urandom > $n; done"
        with self.container(volume=True) as name:
            self.execute(name, f"cd /data && {make}")
            async with manager.session(tenant=TENANT) as session:
                staged = await session.stage(self.skill)
                await session.run(staged, RunRequest(Shell(f"cd $OUTPUT_DIR && {make}")))
                request = replace(TRUE, outputs=("out/*",), collect=limits)
                for _ in range(ROUNDS):
                    archive.append(await asyncio.to_thread(timed, lambda: self._archive(name, "/data")))
                    collect.append(await timed_async(lambda: session.run(staged, request)))
                assert len((await session.run(staged, request)).files) == MANY
        return (
            Row("get_archive of 1,000 files of 4 KiB from a volume", tuple(archive)),
            Row("collection of 1,000 files of 4 KiB, with its run", tuple(collect)),
        )

    async def flood(self, *, live: bool) -> float:
        """Returns the MiB that this process grows by while a program prints 1 GiB."""
        manager = WorkspaceManager(self.pool, self.store, spec=SPEC)
        seen = 0

        def sink(_stream: str, data: bytes, /) -> None:
            nonlocal seen
            seen += len(data)

        request = RunRequest(
            Shell(f"head -c {FLOOD} /dev/zero"), limits=Limits(wall_seconds=120, output_bytes=2 * FLOOD)
        )
        await self.pool.filled()
        before = rss()
        with peak() as highest:
            result = await manager.run(self.skill, request, tenant=TENANT, on_output=sink if live else None)
        assert result.outcome.ok
        assert result.outcome.stdout_bytes == FLOOD
        assert seen == (FLOOD if live else 0)
        return max(0.0, max(highest) - before)

    async def run(self, manager: WorkspaceManager) -> float:
        """Returns the milliseconds of a run of `true` in a box of its own."""
        result: list[Any] = []

        async def once() -> None:
            result.append(await manager.run(self.skill, TRUE, tenant=TENANT))

        milliseconds = await timed_async(once)
        assert result[0].outcome.ok
        return milliseconds

    async def rested(self) -> None:
        """Returns once the pool has its boxes, and Docker has cleaned up behind what it did last."""
        await self.pool.settled()
        await asyncio.sleep(REST_SECONDS)

    @property
    def image(self) -> str:
        """The runner's image."""
        return image.resolve(self.client, None, "slim").id

    def _body(self, runtime: str | None = None) -> dict[str, Any]:
        options = DockerOptions(
            instance="bench", seccomp=seccomp_profile(), skills_dir=self.store.mount_dir, runtime=runtime
        )
        return create_body(
            SPEC,
            image_id=self.image,
            uid=image.UID_FIRST,
            options=options,
            now=time.time(),
            sandbox_id=SandboxId("bench"),
        )

    def _raw_container(self) -> None:
        body = self._body()
        # Else the daemon removes it by itself, and nobody could tell when it was done.
        body["HostConfig"] = body["HostConfig"] | {"AutoRemove": False}
        name = self.client.create_container_from_config(body)["Id"]  # type: ignore[no-untyped-call]
        self.client.start(name)
        self.client.kill(name)
        self.client.remove_container(name, force=True)

    def sleeping_container(self, client: docker.APIClient, runtime: str) -> None:
        """Makes, starts, kills and removes a container like a box's in which nothing but `sleep` runs."""
        body = self._body(runtime) | {"Entrypoint": ["sleep", "600"]}
        body["HostConfig"] = body["HostConfig"] | {"AutoRemove": False}
        name = client.create_container_from_config(body)["Id"]  # type: ignore[no-untyped-call]
        client.start(name)
        client.kill(name)
        client.remove_container(name, force=True)

    @contextmanager
    def container(self, *, volume: bool = False) -> Iterator[str]:
        """Runs a container like a box's while the block lasts; gives its name."""
        body = self._body()
        body |= {"Entrypoint": ["sleep", "600"], "User": "0:0"}
        if volume:
            body["Volumes"] = {"/data": {}}
        name: str = self.client.create_container_from_config(body)["Id"]  # type: ignore[no-untyped-call]
        self.client.start(name)
        try:
            yield name
        finally:
            self.client.remove_container(name, force=True, v=True)

    def execute(self, name: str, command: str = "true") -> None:
        """Runs a command in a container, by docker-py."""
        started = self.client.exec_create(name, ["sh", "-c", command] if " " in command else [command])["Id"]
        self.client.exec_start(started)
        assert self.client.exec_inspect(started)["ExitCode"] == 0

    def run_rm(self) -> None:
        """Makes, starts, awaits and removes a container of `true`, by docker-py."""
        body = self._body() | {"Entrypoint": ["true"], "OpenStdin": False, "StdinOnce": False}
        body["HostConfig"] = body["HostConfig"] | {"AutoRemove": False}
        name = self.client.create_container_from_config(body)["Id"]  # type: ignore[no-untyped-call]
        self.client.start(name)
        assert self.client.wait(name)["StatusCode"] == 0
        self.client.remove_container(name)

    def _archive(self, name: str, path: str = "/data/big") -> None:
        chunks, _ = self.client.get_archive(name, path)
        with (self.folder / "archive.tar").open("wb") as file:
            for chunk in chunks:
                file.write(chunk)


def alone(rows: Callable[[Bench], Awaitable[list[Row]]]) -> int:
    """Measures some rows by themselves and prints them; returns 1 when a ratio misses its bound."""

    async def measure(folder: Path) -> list[Row]:
        async with Bench.opened(folder) as bench:
            return await rows(bench)

    with tempfile.TemporaryDirectory(prefix="sandbox-skills-bench-") as folder:
        measured = asyncio.run(measure(Path(folder)))
    sys.stdout.write(as_markdown(measured, machine()))
    return 1 if missed(measured) else 0


def timed(work: Callable[[], object]) -> float:
    """Returns the milliseconds that `work` took."""
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1000


async def timed_async(work: Callable[[], Awaitable[object]]) -> float:
    """Returns the milliseconds that `work` took."""
    start = time.perf_counter()
    await work()
    return (time.perf_counter() - start) * 1000


def rss() -> float:
    """Returns this process's resident memory in MiB."""
    text = Path("/proc/self/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS")) / 1024


@contextmanager
def peak() -> Iterator[list[float]]:
    """Samples resident memory while the block lasts."""
    samples = [rss()]
    ended = threading.Event()

    def sample() -> None:
        while not ended.wait(0.005):
            samples.append(rss())

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        ended.set()
        thread.join()
