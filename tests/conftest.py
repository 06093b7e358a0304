"""What every test shares: one event loop, and proof that nothing was left behind."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import docker
import pytest

from sandbox_skills.engines.docker import DockerEngine, DockerEngineOptions
from sandbox_skills.engines.docker_config import LABEL_MANAGED
from sandbox_skills.workspace.staging import SkillStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

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
def nothing_left(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """After each Docker test everything that a sandbox may hold is as it was before."""
    if request.node.get_closest_marker("docker") is None:
        yield
        return
    client: docker.APIClient = request.getfixturevalue("daemon")
    ours = str(tmp_path_factory.getbasetemp())
    before = _inventory(client, ours)
    yield
    deadline = time.monotonic() + LEAK_SECONDS
    while (left := _inventory(client, ours) - before) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left, f"left behind: {sorted(left)}"


def _inventory(client: docker.APIClient, ours: str) -> set[str]:
    """Containers on our stores (others may run tests on this daemon), volumes, mounts, uid leases, temporary files."""
    containers = client.containers(all=True, filters={"label": f"{LABEL_MANAGED}=1"})
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    return {
        *(f"container {row['Id']}" for row in containers if _mounts_below(row, ours)),
        *(f"volume {row['Name']}" for row in client.volumes()["Volumes"] or []),
        *(f"mount {line.split()[4]}" for line in mounts if ours in line),
        *(f"lease {name}" for name in _own_sockets() if name.startswith("@sandbox-skills-uid-")),
        *(f"temporary {path}" for path in Path(tempfile.gettempdir()).glob("sandbox-skills-*")),
        *(f"unfinished {path}" for path in Path(ours).glob("*/store/temporary/*")),
    }


def _mounts_below(row: Mapping[str, Any], folder: str) -> bool:
    return any(str(mount.get("Source", "")).startswith(folder) for mount in row["Mounts"])


def _own_sockets() -> set[str]:
    """Names of the abstract sockets that this process holds."""
    inodes = {str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()}
    rows = [line.split() for line in Path("/proc/net/unix").read_text(encoding="utf-8").splitlines()[1:]]
    return {row[7] for row in rows if len(row) > 7 and f"socket:[{row[6]}]" in inodes}
