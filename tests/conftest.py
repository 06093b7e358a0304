"""What every test shares: one event loop, and proof that nothing was left behind."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import docker
import pytest

from sandbox_skills.engines.docker import DockerEngine, DockerEngineOptions
from sandbox_skills.engines.docker_config import LABEL_MANAGED
from sandbox_skills.workspace.staging import SkillStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

ROOT = Path(__file__).parent.parent

LEAK_SECONDS = 10.0


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """One loop for the whole run, so that an engine can be shared by tests."""
    return "asyncio"


@pytest.fixture(scope="session")
def daemon() -> Iterator[docker.APIClient]:
    """A client of the Docker Engine. Tests that need it fail without it: they are never skipped."""
    client = docker.APIClient(version="auto")
    yield client
    client.close()


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> SkillStore:
    return SkillStore(tmp_path_factory.mktemp("data") / "store")


@pytest.fixture(scope="session")
async def docker_engine(
    anyio_backend: str, store: SkillStore, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[DockerEngine]:
    """The real engine over the image that `make image` built, its checks from inside included."""
    engine = DockerEngine(
        DockerEngineOptions(
            data_dir=tmp_path_factory.mktemp("engine"), skills_dir=store.mount_dir, marker=store.marker()
        )
    )
    yield engine
    await engine.aclose()


@pytest.fixture(autouse=True)
def nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each Docker test the daemon has what it had before: containers, volumes, networks."""
    if request.node.get_closest_marker("docker") is None:
        yield
        return
    client: docker.APIClient = request.getfixturevalue("daemon")
    before = _inventory(client)
    yield
    deadline = time.monotonic() + LEAK_SECONDS
    while (left := _inventory(client) - before) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left, f"left behind: {sorted(left)}"


def _inventory(client: docker.APIClient) -> set[str]:
    containers = client.containers(all=True, filters={"label": f"{LABEL_MANAGED}=1"})
    volumes = client.volumes()["Volumes"] or []
    return {
        *(f"container {row['Id']}" for row in containers),
        *(f"volume {row['Name']}" for row in volumes),
        *(f"network {row['Id']}" for row in client.networks()),
    }
