"""A daemon that answers late or not at all: no container stays behind for it, and nobody waits for it for long."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import anyio.to_thread
import pytest

from sandbox_skills.engines import daemon_calls, docker_box
from sandbox_skills.engines.docker import DockerEngine, DockerEngineOptions
from sandbox_skills.engines.docker_client import DockerConnection
from sandbox_skills.engines.docker_leftovers import owned
from sandbox_skills.engines.instance import dead_instances
from sandbox_skills.errors import EngineUnavailableError
from sandbox_skills.spec import SandboxSpec
from tests.integration.relay import relay

if TYPE_CHECKING:
    from pathlib import Path

    import docker

    from sandbox_skills.workspace.staging import SkillStore
    from tests.integration.relay import Relay

pytestmark = [pytest.mark.anyio, pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(60)]

CREATE = rb"POST /v[\d.]+/containers/create"
DELETE = rb"DELETE /v[\d.]+/containers/"

FOR_EVER = 60.0
"""Longer than any of these tests takes: the relay stops waiting when it is closed."""


GIVES_UP = 2.0
"""What an engine waits for an answer, if it is to give up: any that is not held up comes much sooner."""

PATIENT = 30.0


def engine_at(place: Path, store: SkillStore, data_dir: Path, *, seconds: float = PATIENT) -> DockerEngine:
    return DockerEngine(
        DockerEngineOptions(
            data_dir=data_dir,
            connection=DockerConnection(f"unix://{place}"),
            skills_dir=store.mount_dir,
            marker=store.marker(),
            timeout_seconds=seconds,
            # A socket goes with whoever gave up, and the daemon makes no box without it: this one it does make.
            channel="attach",
        )
    )


def boxes(daemon: docker.APIClient, instances: frozenset[str]) -> list[str]:
    return [box.id for box in owned(daemon) if box.instance in instances]


def await_made(daemon: docker.APIClient, instances: frozenset[str]) -> None:
    deadline = time.monotonic() + 20
    while not boxes(daemon, instances) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(boxes(daemon, instances)) == 1


async def cancelled_at_once(engine: DockerEngine, way: Relay) -> None:
    """Cancels the opening of a box while its daemon does not answer, and closes: neither waits for the answer."""
    async with anyio.create_task_group() as group:

        async def opened() -> None:
            async with engine.open(SandboxSpec()):
                pass

        group.start_soon(opened)
        await anyio.to_thread.run_sync(way.held.wait)
        started = time.monotonic()
        group.cancel_scope.cancel()
    await engine.aclose()
    assert time.monotonic() - started < FOR_EVER / 3


async def test_a_box_that_is_made_after_its_process_gave_up_goes_with_the_next_one(
    store: SkillStore, tmp_path: Path, daemon: docker.APIClient
) -> None:
    with relay(tmp_path / "s", slow={CREATE: 7.0}) as way:
        engine = engine_at(way.place, store, tmp_path, seconds=GIVES_UP)
        with pytest.raises(EngineUnavailableError):
            async with engine.open(SandboxSpec()):
                pass
        await engine.aclose()
        dead = dead_instances(tmp_path / "instances")
        assert (len(dead), boxes(daemon, dead)) == (1, [])
        # Looking while it is not there yet must not make anyone forget whose it will be.
        for _ in range(2):
            early = engine_at(way.place, store, tmp_path)
            assert await early.reap(()) == []
            await early.aclose()
        await anyio.to_thread.run_sync(await_made, daemon, dead)
        late = engine_at(way.place, store, tmp_path)
        await late.probe()
        await late.aclose()
        assert boxes(daemon, dead) == []


async def test_a_box_that_is_made_late_but_before_the_end_is_removed_at_the_end(
    store: SkillStore, tmp_path: Path, daemon: docker.APIClient
) -> None:
    with relay(tmp_path / "s", slow={CREATE: 5.0}) as way:
        engine = engine_at(way.place, store, tmp_path, seconds=GIVES_UP)
        with pytest.raises(EngineUnavailableError):
            async with engine.open(SandboxSpec()):
                pass
        (mine,) = (path.name for path in (tmp_path / "instances").iterdir())
        await anyio.to_thread.run_sync(await_made, daemon, frozenset({mine}))
        await engine.aclose()
        assert boxes(daemon, frozenset({mine})) == []
        assert list((tmp_path / "instances").iterdir()) == []


async def test_a_cancel_does_not_wait_for_a_daemon_that_hangs(
    store: SkillStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon_calls, "GRACE_SECONDS", 0.5)
    monkeypatch.setattr(docker_box.remove, "__defaults__", (0.5,))
    monkeypatch.setattr("sandbox_skills.engines.docker.LAST_SECONDS", 0.5)
    with relay(tmp_path / "s", slow={CREATE: FOR_EVER, DELETE: FOR_EVER}) as way:
        engine = engine_at(way.place, store, tmp_path, seconds=FOR_EVER)
        await cancelled_at_once(engine, way)
        assert len(dead_instances(tmp_path / "instances")) == 1


@pytest.mark.parametrize("what", [b"GET /v[0-9.]+/info", rb"GET /v[\d.]+/images/", rb"GET /v[\d.]+/version"])
async def test_a_cancel_of_a_mere_question_is_immediate(
    store: SkillStore, tmp_path: Path, what: bytes
) -> None:
    with relay(tmp_path / "s", slow={what: FOR_EVER}) as way:
        engine = engine_at(way.place, store, tmp_path, seconds=FOR_EVER)
        await cancelled_at_once(engine, way)
