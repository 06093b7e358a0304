"""The Docker engine on a real daemon: what it starts, what ends it, and that nothing is left."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from contextlib import asynccontextmanager
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import anyio
import docker
import docker.errors
import pytest

from sandbox_skills.engines import box as box_module
from sandbox_skills.engines import docker_box, verify
from sandbox_skills.engines.docker import DockerEngine, DockerEngineOptions
from sandbox_skills.engines.docker_client import DockerConnection
from sandbox_skills.engines.docker_config import DockerOptions, create_body
from sandbox_skills.engines.docker_leftovers import owned
from sandbox_skills.engines.instance import Instance, dead_instances
from sandbox_skills.engines.pool import PooledEngine
from sandbox_skills.engines.seccomp.profile import seccomp_profile
from sandbox_skills.errors import EngineUnavailableError, GuaranteeError, ImageError, SandboxLostError
from sandbox_skills.spec import (
    MIB,
    CollectLimits,
    Command,
    Guarantee,
    SandboxId,
    SandboxLimits,
    SandboxSpec,
    Stopped,
)
from tests.docker_host import connection

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable
    from pathlib import Path

    from sandbox_skills.engines.base import Sandbox
    from sandbox_skills.workspace.staging import SkillStore

pytestmark = [pytest.mark.anyio, pytest.mark.docker]

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin"}

SPEC = SandboxSpec(tenant="one", run="r1")

SMALL = SandboxSpec(
    limits=SandboxLimits(memory=96 * MIB, workspace_bytes=16 * MIB, tmp_bytes=8 * MIB, shm_bytes=MIB)
)

PATIENCE = 10.0

HOLDER = """
import asyncio, sys
from pathlib import Path
from sandbox_skills.engines.docker import DockerEngine, DockerEngineOptions
from sandbox_skills.spec import SandboxSpec
from tests.docker_host import connection

async def main(data_dir, skills_dir, *marker):
    options = DockerEngineOptions(Path(data_dir), connection(), skills_dir=Path(skills_dir), marker=marker)
    engine = DockerEngine(options)
    async with engine.open(SandboxSpec()) as sandbox:
        print(sandbox.id, flush=True)
        await asyncio.sleep(60)

asyncio.run(main(*sys.argv[1:]))
"""


def sh(text: str) -> Command:
    return Command(("bash", "-c", text), env=ENV)


def options(store: SkillStore, data_dir: Path, **changes: Any) -> DockerEngineOptions:  # noqa: ANN401  # any option
    usual = {"connection": connection(), "skills_dir": store.mount_dir, "marker": store.marker()}
    return DockerEngineOptions(**{"data_dir": data_dir, **usual, **changes})


@asynccontextmanager
async def engine_with(store: SkillStore, data_dir: Path, **changes: Any) -> AsyncGenerator[DockerEngine]:  # noqa: ANN401
    engine = DockerEngine(options(store, data_dir, **changes))
    try:
        yield engine
    finally:
        await engine.aclose()


def exists(daemon: docker.APIClient, sandbox_id: str) -> bool:
    try:
        daemon.inspect_container(sandbox_id)
    except docker.errors.NotFound:
        return False
    return True


async def until(condition: Callable[[], bool]) -> None:
    """Waits for what no event tells of."""
    with anyio.fail_after(PATIENCE):
        while not await anyio.to_thread.run_sync(condition):  # noqa: ASYNC110  # the daemon has no event for us
            await anyio.sleep(0.02)


class TestLife:
    async def test_a_box_is_there_until_it_is_left(
        self, docker_engine: DockerEngine, daemon: docker.APIClient
    ) -> None:
        async with docker_engine.open(SPEC) as sandbox:
            assert exists(daemon, sandbox.id)
            assert 0 <= await sandbox.ping() < PATIENCE
        assert not exists(daemon, sandbox.id)
        assert not sandbox.alive

    async def test_the_container_is_what_the_body_says(
        self, docker_engine: DockerEngine, daemon: docker.APIClient, store: SkillStore
    ) -> None:
        async with docker_engine.open(SPEC) as sandbox:
            found = daemon.inspect_container(sandbox.id)
        config, host = found["Config"], found["HostConfig"]
        assert (config["Labels"]["sandbox-skills.tenant"], config["Labels"]["sandbox-skills.run"]) == (
            "one",
            "r1",
        )
        assert (config["OpenStdin"], config["StdinOnce"], config["NetworkDisabled"]) == (True, True, True)
        assert (host["CapDrop"], host["ReadonlyRootfs"], host["AutoRemove"]) == (["ALL"], True, True)
        assert (host["Memory"], host["MemorySwap"], host["PidsLimit"]) == (512 * MIB, 512 * MIB, 128)
        assert host["LogConfig"]["Type"] == "none"
        mounts = {mount["Destination"]: (mount["Source"], mount["RW"]) for mount in found["Mounts"]}
        assert mounts.pop("/run/sandbox-skills")[1] is False
        assert mounts == {"/skills": (str(store.mount_dir), False)}
        assert int(config["User"].split(":")[0]) >= 10_000

    async def test_each_box_has_its_own_uid(self, docker_engine: DockerEngine) -> None:
        async with docker_engine.open(SPEC) as one, docker_engine.open(SPEC) as two:
            uids = {(await box.run(sh("id -u"))).stdout for box in (one, two)}
        assert len(uids) == 2

    async def test_an_error_inside_ends_the_box_and_comes_through(
        self, docker_engine: DockerEngine, daemon: docker.APIClient
    ) -> None:
        box: Sandbox | None = None
        with pytest.raises(LookupError):
            async with docker_engine.open(SPEC) as box:
                raise LookupError
        assert box is not None
        assert not exists(daemon, box.id)

    async def test_a_running_program_does_not_delay_the_end(self, docker_engine: DockerEngine) -> None:
        async with docker_engine.open(SPEC) as sandbox:
            run = asyncio.ensure_future(sandbox.run(sh("trap '' TERM; sleep 60")))
            await asyncio.sleep(0.2)
            started = time.monotonic()
        assert time.monotonic() - started < PATIENCE
        with pytest.raises(SandboxLostError):
            await run

    @pytest.mark.slow
    @pytest.mark.timeout(120)
    async def test_a_cancel_at_any_moment_leaves_nothing(
        self, store: SkillStore, tmp_path: Path, daemon: docker.APIClient
    ) -> None:
        async with engine_with(store, tmp_path) as engine:
            async with engine.open(SPEC):
                pass
            started = time.monotonic()
            async with engine.open(SPEC):
                took = time.monotonic() - started

            async def use() -> None:
                async with engine.open(SPEC) as sandbox:
                    await sandbox.run(sh("sleep 60"))

            for index in range(30):
                delay = random.uniform(0, 1.5 * took)
                if index % 2:
                    with anyio.move_on_after(delay):
                        await use()
                else:
                    task = asyncio.ensure_future(use())
                    await asyncio.sleep(delay)
                    task.cancel()
                    await asyncio.wait([task])
            assert [box for box in owned(daemon) if box.instance == instance_of(engine)] == []

    async def test_a_hundred_milliseconds_pass_on_the_loop_while_boxes_come_and_go(
        self, docker_engine: DockerEngine
    ) -> None:
        async def longest_gap() -> float:
            gap, last = 0.0, time.monotonic()
            while True:
                try:
                    await asyncio.sleep(0.005)
                except asyncio.CancelledError:
                    return gap
                now = time.monotonic()
                gap, last = max(gap, now - last), now

        gaps: list[float] = []
        # The least of some: other programs share the processors.
        while len(gaps) < 12 and min(gaps, default=1.0) >= 0.1:
            heart = asyncio.ensure_future(longest_gap())
            await asyncio.sleep(0.02)
            async with docker_engine.open(SPEC) as sandbox:
                await sandbox.run(sh("true"))
            heart.cancel()
            gaps.append(await heart)
        assert min(gaps) < 0.1, gaps

    async def test_pooled_boxes_are_real_and_end(
        self, store: SkillStore, tmp_path: Path, daemon: docker.APIClient
    ) -> None:
        engine = DockerEngine(options(store, tmp_path))
        async with PooledEngine(engine, SPEC, size=2) as pool:
            await pool.filled()
            mine = instance_of(engine)
            assert len([box for box in owned(daemon) if box.instance == mine]) == 2
            async with pool.open(SPEC) as sandbox:
                assert (await sandbox.run(sh("true"))).ok
        assert [box for box in owned(daemon) if box.instance == mine] == []


def instance_of(engine: DockerEngine) -> str:
    instance = engine._instance
    assert instance is not None
    return instance.id


class TestRefusals:
    async def test_no_daemon_is_no_engine(self, store: SkillStore, tmp_path: Path) -> None:
        nowhere = DockerConnection(f"unix://{tmp_path}/nothing")
        async with engine_with(store, tmp_path, connection=nowhere) as engine:
            with pytest.raises(EngineUnavailableError):
                await engine.probe()

    async def test_an_image_that_is_not_there_starts_nothing(self, store: SkillStore, tmp_path: Path) -> None:
        async with engine_with(store, tmp_path, image="sandbox-skills-test/no-such-image:1") as engine:
            with pytest.raises(ImageError):
                async with engine.open(SPEC):
                    pass

    async def test_a_guarantee_that_the_daemon_does_not_have_starts_nothing(
        self, docker_engine: DockerEngine
    ) -> None:
        await docker_engine.probe()
        spec = SandboxSpec(needs=frozenset({Guarantee.KERNEL_BOUNDARY}))
        with pytest.raises(GuaranteeError) as caught:
            async with docker_engine.open(spec):
                pass
        assert caught.value.lost == ("kernel_boundary",)

    async def test_a_store_that_is_not_the_one_meant_is_refused_from_inside(
        self, store: SkillStore, tmp_path: Path
    ) -> None:
        name, _ = store.marker()
        async with engine_with(store, tmp_path, marker=(name, "0" * 64)) as engine:
            with pytest.raises(GuaranteeError):
                async with engine.open(SPEC):
                    pass

    async def test_a_box_that_does_not_hold_what_it_must_is_ended(
        self, docker_engine: DockerEngine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def none_holds(*_: object, **__: object) -> list[verify.Lost]:
            return [verify.Lost(Guarantee.SECCOMP, "made up")]

        monkeypatch.setattr(verify, "check_box", none_holds)
        with pytest.raises(GuaranteeError, match="made up"):
            async with docker_engine.open(SPEC):
                pass

    async def test_a_box_with_more_needs_is_probed_anew(self, store: SkillStore, tmp_path: Path) -> None:
        async with engine_with(store, tmp_path) as engine:
            async with engine.open(SandboxSpec(needs=frozenset({Guarantee.MEMORY}))):
                pass
            async with engine.open(SPEC):
                pass
            async with engine.open(SPEC):
                assert len(engine._checked) == 2


class TestLosses:
    async def test_a_box_that_is_killed_during_a_run_is_lost(
        self, docker_engine: DockerEngine, daemon: docker.APIClient
    ) -> None:
        async with docker_engine.open(SPEC) as sandbox:
            run = asyncio.ensure_future(sandbox.run(sh("sleep 60")))
            await asyncio.sleep(0.2)
            await anyio.to_thread.run_sync(daemon.kill, sandbox.id)
            with pytest.raises(SandboxLostError, match="exit code 137"):
                await run
            assert not sandbox.alive

    async def test_a_box_that_is_removed_while_it_is_idle_is_not_alive(
        self, docker_engine: DockerEngine, daemon: docker.APIClient
    ) -> None:
        async with docker_engine.open(SPEC) as sandbox:
            await anyio.to_thread.run_sync(lambda: daemon.remove_container(sandbox.id, force=True))
            await until(lambda: not sandbox.alive)
            with pytest.raises(SandboxLostError):
                await sandbox.run(sh("true"))

    async def test_memory_for_one_program_is_its_ending_and_the_box_lives(
        self, docker_engine: DockerEngine
    ) -> None:
        async with docker_engine.open(SMALL) as sandbox:
            outcome = await sandbox.run(Command(("python3", "-c", "bytearray(1 << 30)"), env=ENV))
            assert outcome.ending == Stopped("memory")
            assert outcome.limits_hit == {"memory"}
            assert (await sandbox.run(sh("true"))).ok

    @pytest.mark.slow
    @pytest.mark.timeout(120)
    async def test_memory_for_the_whole_box_is_an_ending_too(
        self, docker_engine: DockerEngine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # A workspace larger than the memory cannot be had otherwise: that is what the reserve is for.
        monkeypatch.setattr(box_module, "MEMORY_RESERVE", -(1 << 40))
        monkeypatch.setattr(verify, "check_box", lambda *_, **__: [])
        spec = SandboxSpec(
            limits=SandboxLimits(memory=64 * MIB, workspace_bytes=512 * MIB, tmp_bytes=MIB, shm_bytes=MIB)
        )
        async with docker_engine.open(spec) as sandbox:
            # What is full stays full, and one day the kernel takes the runner: after 14 times when it was tried.
            fill = sh("head -c 400M /dev/zero >> big")
            outcome = await sandbox.run(fill)
            while outcome.sandbox_lives:
                assert outcome.ending == Stopped("memory")
                outcome = await sandbox.run(fill)
            assert outcome.ending == Stopped("memory")
            assert not sandbox.alive


async def first_reap(engine: DockerEngine) -> None:
    assert engine._first_reap is not None
    await engine._first_reap


def dead_instance(folder: Path) -> Instance:
    dead = Instance(folder)
    dead.close(forget=False)
    return dead


class TestReap:
    def made(
        self, daemon: docker.APIClient, engine: DockerEngine, instance: str, *, ttl: float = 3600
    ) -> SandboxId:
        """Makes a container that never starts, and so never removes itself."""
        assert engine._image is not None
        sandbox_id = SandboxId(f"sandbox-test-{random.getrandbits(64):016x}")
        body = create_body(
            SandboxSpec(ttl_seconds=ttl),
            image_id=engine._image.id,
            uid=65_000,
            options=DockerOptions(
                instance=instance, seccomp=seccomp_profile(), skills_dir=engine._options.skills_dir
            ),
            now=time.time() - 100,
            sandbox_id=sandbox_id,
        )
        docker_box.create(daemon, sandbox_id, body)
        return sandbox_id

    async def test_only_what_nobody_owns_is_reaped(
        self, store: SkillStore, tmp_path: Path, daemon: docker.APIClient
    ) -> None:
        folder = tmp_path / "instances"
        async with engine_with(store, tmp_path) as engine:
            with Instance(folder) as other:
                async with engine.open(SPEC) as sandbox:
                    await first_reap(engine)
                    dead = dead_instance(folder)
                    of_dead = self.made(daemon, engine, dead.id)
                    of_dead_kept = self.made(daemon, engine, dead.id)
                    of_other = self.made(daemon, engine, other.id)
                    expired = self.made(daemon, engine, other.id, ttl=1)
                    of_stranger = self.made(daemon, engine, "0123456789abcdef")
                    try:
                        reaped = await engine.reap({of_dead_kept})
                        assert {of_dead, expired} <= set(reaped)
                        assert {sandbox.id, of_dead_kept, of_other, of_stranger}.isdisjoint(reaped)
                        assert (await sandbox.run(sh("true"))).ok
                        assert not exists(daemon, of_dead)
                        assert not exists(daemon, expired)
                    finally:
                        for left in (of_dead_kept, of_other, of_stranger):
                            docker_box.remove(daemon, left)
        # Its daemon may still make what it was asked for.
        assert dead.id in dead_instances(folder)

    async def test_what_a_dead_process_left_goes_when_the_next_one_starts(
        self, store: SkillStore, tmp_path: Path, daemon: docker.APIClient
    ) -> None:
        async with engine_with(store, tmp_path) as earlier, earlier.open(SPEC):
            await first_reap(earlier)
            dead = dead_instance(tmp_path / "instances")
            left = self.made(daemon, earlier, dead.id)
            assert exists(daemon, left)
        async with engine_with(store, tmp_path) as engine:
            await engine.probe()
            await until(lambda: not exists(daemon, left))

    async def test_a_box_whose_process_is_killed_goes_by_itself(
        self, store: SkillStore, tmp_path: Path, daemon: docker.APIClient
    ) -> None:
        arguments = [str(tmp_path), str(store.mount_dir), *store.marker()]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", HOLDER, *arguments, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        async with engine_with(store, tmp_path) as engine:
            sandbox_id = (await process.stdout.readline()).decode().strip()
            assert exists(daemon, sandbox_id)
            assert sandbox_id not in await engine.reap([])
            process.kill()
            await process.wait()
            await until(lambda: not exists(daemon, sandbox_id))
            await engine.reap([])
            assert len(dead_instances(tmp_path / "instances")) == 1

    async def test_a_process_that_is_interrupted_leaves_nothing(
        self, store: SkillStore, tmp_path: Path, daemon: docker.APIClient
    ) -> None:
        arguments = [str(tmp_path), str(store.mount_dir), *store.marker()]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            HOLDER,
            *arguments,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        assert process.stdout is not None
        sandbox_id = (await process.stdout.readline()).decode().strip()
        process.send_signal(signal.SIGINT)
        await process.wait()
        assert not exists(daemon, sandbox_id)


async def endless() -> AsyncIterator[bytes]:
    while True:
        yield os.urandom(4096)
        await asyncio.sleep(0)


class Sink:
    blocking = False

    def begin(self, file: object, /) -> None: ...
    def write(self, data: bytes, /) -> None: ...
    def end(self) -> None: ...


async def test_every_call_that_waits_hears_of_the_loss(
    docker_engine: DockerEngine, daemon: docker.APIClient
) -> None:
    async with docker_engine.open(SPEC) as sandbox:
        calls = [
            asyncio.ensure_future(sandbox.run(sh("sleep 60"))),
            asyncio.ensure_future(sandbox.put(PurePosixPath("out/a"), endless())),
        ]
        await asyncio.sleep(0.1)
        await anyio.to_thread.run_sync(daemon.kill, sandbox.id)
        with anyio.fail_after(PATIENCE):
            errors = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(error) for error in errors] == [SandboxLostError, SandboxLostError]
        with pytest.raises(SandboxLostError):
            await sandbox.collect(["**"], CollectLimits(), Sink())
