"""The clock is set while boxes live: what is used stays, what died is explained, and what is left goes."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.engines.docker import DockerEngine, DockerEngineOptions
from sandbox_skills.engines.pool import PooledEngine
from sandbox_skills.errors import SandboxLostError
from sandbox_skills.spec import Command, Limits, SandboxSpec, Stopped
from tests.docker_host import connection

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import docker

    from sandbox_skills.workspace.staging import SkillStore

pytestmark = [pytest.mark.anyio, pytest.mark.docker]

YEARS = 10 * 365 * 86_400.0

ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
TRUE = Command(("true",), env=ENVIRONMENT)

SPEC = replace(SandboxSpec(), ttl_seconds=3600.0)


@pytest.fixture(params=[YEARS, -YEARS], ids=["ahead", "back"])
def jump(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Sets the clock of this process by years."""
    real, by = time.time, request.param
    return lambda: monkeypatch.setattr(time, "time", lambda: real() + by)


@pytest.fixture
def engine(store: SkillStore) -> Callable[[Path], DockerEngine]:
    return lambda folder: DockerEngine(
        DockerEngineOptions(folder, connection(), store.mount_dir, store.marker())
    )


@pytest.mark.parametrize("shared", [True, False], ids=["one data directory", "two data directories"])
async def test_no_living_box_is_reaped(
    jump: Callable[[], None], engine: Callable[[Path], DockerEngine], tmp_path: Path, *, shared: bool
) -> None:
    one, other = engine(tmp_path / "one"), engine(tmp_path / ("one" if shared else "other"))
    try:
        async with one.open(SPEC) as box:
            jump()
            assert box.id not in await other.reap(())
            assert (await box.run(TRUE)).ok
    finally:
        await one.aclose()
        await other.aclose()


async def test_what_a_dead_process_left_goes(
    jump: Callable[[], None], engine: Callable[[Path], DockerEngine], tmp_path: Path, daemon: docker.APIClient
) -> None:
    dead, other = engine(tmp_path), engine(tmp_path)
    context = dead.open(SPEC)
    box = await context.__aenter__()
    try:
        jump()
        assert dead._instance is not None
        dead._instance.close(forget=False)
        assert await other.reap(()) == [box.id]
    finally:
        with pytest.raises(SandboxLostError):
            await box.run(TRUE)
        await context.__aexit__(None, None, None)
        await dead.aclose()
        await other.aclose()


async def test_deadlines_and_deaths_are_told_as_ever(
    jump: Callable[[], None], engine: Callable[[Path], DockerEngine], tmp_path: Path, daemon: docker.APIClient
) -> None:
    one = engine(tmp_path)
    try:
        async with one.open(SPEC) as box:
            jump()
            outcome = await box.run(
                Command(("sleep", "60"), env=ENVIRONMENT), limits=Limits(wall_seconds=0.5)
            )
            assert outcome.ending == Stopped("wall_time")
            assert 0.4 < outcome.wall_seconds < 5
            daemon.kill(box.id)
            with pytest.raises(SandboxLostError, match="137"):
                await box.run(TRUE)
    finally:
        await one.aclose()


async def test_a_pool_keeps_its_boxes(
    jump: Callable[[], None], engine: Callable[[Path], DockerEngine], tmp_path: Path
) -> None:
    one = engine(tmp_path)
    try:
        async with PooledEngine(one, SPEC, size=1) as pool:
            await pool.filled()
            waiting = set(one._live)
            jump()
            async with pool.open(SPEC) as box:
                assert box.id in waiting
                assert (await box.run(TRUE)).ok
    finally:
        await one.aclose()
