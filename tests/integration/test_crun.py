"""crun in runc's place, on a daemon of the tests' own: the same guarantees, found by the same look from inside.

A machine may mount both versions of control groups, where crun starts nothing: the daemon is shown only the first.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.engines.docker import DockerEngine, DockerEngineOptions
from sandbox_skills.engines.docker_client import DockerConnection
from sandbox_skills.engines.docker_config import CRUN
from sandbox_skills.engines.image import image_tag
from sandbox_skills.spec import Command, Guarantee, SandboxSpec, Stopped
from tests.own_daemon import OwnDaemon

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    import docker

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(120)]

PATH = {"PATH": "/usr/local/bin:/usr/bin:/bin"}

ONE_VERSION = "! mountpoint -q /sys/fs/cgroup/unified || umount /sys/fs/cgroup/unified"


@pytest.fixture(scope="module")
def own(daemon: docker.APIClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnDaemon]:
    runtime = f"--add-runtime={CRUN}={shutil.which('crun')}"
    found = OwnDaemon(tmp_path_factory.mktemp("crun"), runtime, prepare=ONE_VERSION)
    try:
        found.load(daemon.get_image(image_tag("slim")))
        yield found
    finally:
        found.close()


@pytest.fixture(scope="module")
async def crun(
    anyio_backend: object, own: OwnDaemon, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[DockerEngine]:
    where = DockerConnection(f"unix://{own.socket}")
    engine = DockerEngine(DockerEngineOptions(tmp_path_factory.mktemp("crun-data"), where, runtime=CRUN))
    yield engine
    await engine.aclose()


async def test_crun_gives_what_runc_gives(crun: DockerEngine, own: OwnDaemon) -> None:
    await crun.probe()
    assert Guarantee.NO_NETWORK in crun.guarantees
    async with crun.open(SandboxSpec(needs=crun.guarantees)) as box:
        outcome = await box.run(Command(("cat", "/proc/self/status"), env=PATH))
        assert own.client.inspect_container(box.id)["HostConfig"]["Runtime"] == CRUN
    status = dict(line.split(":\t", 1) for line in outcome.stdout.decode().splitlines() if ":\t" in line)
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert own.client.containers(all=True) == []


async def test_its_memory_limit_is_told_and_the_box_goes_on(crun: DockerEngine) -> None:
    async with crun.open(SandboxSpec()) as box:
        eater = Command(("python3", "-c", "x = b'x' * (1 << 30)"), env=PATH)
        assert (await box.run(eater)).ending == Stopped("memory")
        assert (await box.run(Command(("true",), env=PATH))).ok
