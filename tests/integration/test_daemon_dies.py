"""A daemon of our own, ended in the middle of a run and started again."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.engines.docker import DockerEngine, DockerEngineOptions
from sandbox_skills.engines.docker_client import DockerConnection
from sandbox_skills.engines.image import image_tag
from sandbox_skills.engines.pool import PooledEngine
from sandbox_skills.errors import EngineUnavailableError, SandboxLostError, SessionLostError
from sandbox_skills.spec import Command, Exited, SandboxSpec
from sandbox_skills.workspace.manager import RunRequest, Shell, WorkspaceManager
from sandbox_skills.workspace.sessions import SessionManager
from tests.own_daemon import OwnDaemon

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import docker

    from sandbox_skills.workspace.staging import SkillStore

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.docker,
    pytest.mark.root,
    pytest.mark.slow,
    pytest.mark.timeout(240),
]

BACK_SECONDS = 60.0
"""The pool tries again within 30 s, and a box on a daemon that has just come up takes a while."""

HELLO = RunRequest(Shell("cat SKILL.md"))


@pytest.fixture(scope="module")
def one_daemon(tmp_path_factory: pytest.TempPathFactory, daemon: docker.APIClient) -> Iterator[OwnDaemon]:
    own = OwnDaemon(tmp_path_factory.mktemp("own"))
    try:
        own.load(daemon.get_image(image_tag("slim")))
        yield own
    finally:
        own.close()


@pytest.fixture
def own_daemon(one_daemon: OwnDaemon) -> OwnDaemon:
    """A daemon that answers, with the image and without containers."""
    if not one_daemon.alive:
        one_daemon.start()
    return one_daemon


@pytest.fixture
def engine(own_daemon: OwnDaemon, store: SkillStore, tmp_path: Path) -> DockerEngine:
    return DockerEngine(
        DockerEngineOptions(
            data_dir=tmp_path / "state",
            connection=DockerConnection(f"unix://{own_daemon.socket}"),
            skills_dir=store.mount_dir,
            marker=store.marker(),
        )
    )


async def test_a_run_whose_daemon_dies_is_lost_and_leaving_is_clean(
    own_daemon: OwnDaemon, engine: DockerEngine, tmp_path: Path
) -> None:
    async with engine.open(SandboxSpec()) as sandbox:
        run = asyncio.ensure_future(sandbox.run(Command(("sleep", "120"), env={"PATH": "/usr/bin:/bin"})))
        await asyncio.sleep(0.5)
        assert not run.done()
        started = time.monotonic()
        own_daemon.end()
        with pytest.raises(SandboxLostError):
            await run
        assert not sandbox.alive
    assert time.monotonic() - started < 30
    with pytest.raises(EngineUnavailableError):
        async with engine.open(SandboxSpec()):
            pass
    await engine.aclose()
    # The record stays, so that whoever reaps next knows whose box that was.
    assert len(list((tmp_path / "state/instances").iterdir())) == 1


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
async def test_all_goes_on_with_the_same_objects_when_the_daemon_is_back(
    own_daemon: OwnDaemon, engine: DockerEngine, store: SkillStore, tmp_path: Path, how: signal.Signals
) -> None:
    skill = tmp_path / "skill"
    skill.mkdir()
    (skill / "SKILL.md").write_text("hello", encoding="utf-8")
    async with PooledEngine(engine, SandboxSpec(), size=1) as pool:
        manager = WorkspaceManager(pool, store)
        async with SessionManager(manager) as sessions:
            session = await sessions.open("s", tenant="t")
            staged = await session.stage(skill)
            assert (await session.run(staged, HELLO)).outcome.stdout == b"hello"
            run = asyncio.ensure_future(session.run(staged, RunRequest(Shell("sleep 120"))))
            await asyncio.sleep(0.5)
            await asyncio.to_thread(own_daemon.end, how)
            with pytest.raises(SessionLostError):
                await run
            with pytest.raises(EngineUnavailableError) as away:
                await manager.run(skill, HELLO, tenant="t")
            assert away.value.hint
            with pytest.raises(SandboxLostError):
                await sessions.open("s", tenant="t")
            with pytest.raises(EngineUnavailableError):
                await sessions.open("another", tenant="t")

            await asyncio.to_thread(own_daemon.start)
            assert (await manager.run(skill, HELLO, tenant="t")).outcome.ending == Exited(0)
            session = await sessions.open("another", tenant="t")
            assert (await session.run(await session.stage(skill), HELLO)).outcome.stdout == b"hello"
            async with asyncio.timeout(BACK_SECONDS):
                while pool.idle < 1:  # noqa: ASYNC110  # nobody is told, and a refill that fails is tried again
                    await asyncio.sleep(0.1)
            await engine.reap(())
            # What the daemon had when it ended is gone: there are the pool's box and the session's.
            assert len(own_daemon.client.containers(all=True)) == 2
    assert own_daemon.client.containers(all=True) == []
    # A box that was asked for in the moment of the end may come for all that we know, so that our record stays.
    assert len(list((tmp_path / "state/instances").iterdir())) <= 1
