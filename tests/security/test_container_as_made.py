"""What the daemon itself says of a container, and images that would have it otherwise."""

from __future__ import annotations

import asyncio
import io
import os
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import docker
import docker.errors
import pytest

from sandbox_skills.engines.box import RUNNER_ARGV
from sandbox_skills.engines.client import RunnerClient
from sandbox_skills.engines.docker import DockerEngine, DockerEngineOptions
from sandbox_skills.engines.image import image_tag
from sandbox_skills.errors import ImageError
from sandbox_skills.spec import Limits, SandboxSpec
from tests.docker_host import connection
from tests.security.engines import DOCKER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.security.conftest import Box, OpenBox

pytestmark = [pytest.mark.docker, pytest.mark.anyio]

CHANNEL_DIR = "/run/sandbox-skills"

ENDS_SECONDS = 12.0
"""How long a box may outlive its host, on a machine with other work: by itself it ends within a second."""

HOSTILE = """
USER root
ENTRYPOINT ["sleep", "1000"]
CMD ["2000"]
WORKDIR /var/tmp
HEALTHCHECK --interval=1s CMD touch /tmp/health
STOPSIGNAL SIGTERM
ENV HTTP_PROXY=http://secret@proxy:1 https_proxy=http://secret@proxy:1 LD_PRELOAD=/tmp/evil.so PYTHONSTARTUP=/evil.py
EXPOSE 80
"""

HOST_PROCESS = """
import asyncio, sys
from pathlib import Path
from sandbox_skills.engines.client import RunnerClient
from sandbox_skills.engines.docker import DockerEngine, DockerEngineOptions
from sandbox_skills.spec import Command, SandboxSpec
from tests.docker_host import connection
from tests.security.engines import DOCKER
async def main():
    async with DockerEngine(DockerEngineOptions(Path(sys.argv[1]), connection())).open(SandboxSpec()) as sandbox:
        print(sandbox.id, flush=True)
        await sandbox.run(Command(("sleep", "600"), env={"PATH": "/bin"}))
asyncio.run(main())
"""


@contextmanager
def image(daemon: docker.APIClient, name: str, instructions: str) -> Iterator[str]:
    """Builds an image on the runner's own; removes it afterwards."""
    dockerfile = f"FROM {image_tag('slim')}\n{instructions}\n"
    lines = list(daemon.build(fileobj=io.BytesIO(dockerfile.encode()), tag=name, rm=True, decode=True))
    assert any("successfully" in str(line.get("stream", "")).lower() for line in lines), lines
    try:
        yield name
    finally:
        daemon.remove_image(name, force=True)


def engine_on(name: str, data_dir: Path) -> DockerEngine:
    return DockerEngine(DockerEngineOptions(data_dir, connection(), image=name))


def inspected(daemon: docker.APIClient, name: str) -> dict[str, Any]:
    found: dict[str, Any] = daemon.inspect_container(name)
    return found


async def gone_within(daemon: docker.APIClient, name: str, seconds: float) -> bool:
    """Waits for a container to go; returns whether it went in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            daemon.inspect_container(name)
        except docker.errors.NotFound:
            return True
        await asyncio.sleep(0.05)
    return False


def directory_bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


@DOCKER
async def test_a_container_is_owned_labelled_and_never_restarted(
    open_box: OpenBox, daemon: docker.APIClient
) -> None:
    before = time.time()
    async with open_box(SandboxSpec(tenant="t-1", run="r-1", ttl_seconds=100)) as box:
        found = inspected(daemon, box.name)
    labels, host = found["Config"]["Labels"], found["HostConfig"]
    assert labels["sandbox-skills.managed"] == "1"
    assert (labels["sandbox-skills.tenant"], labels["sandbox-skills.run"]) == ("t-1", "r-1")
    assert labels["sandbox-skills.instance"]
    assert before + 99 < int(labels["sandbox-skills.expires-at"]) <= time.time() + 100
    assert (host["RestartPolicy"]["Name"], host["AutoRemove"]) == ("no", True)


@DOCKER
async def test_a_container_has_nothing_of_the_host_but_the_store(box: Box, daemon: docker.APIClient) -> None:
    found = inspected(daemon, box.name)
    host = found["HostConfig"]
    mounts = {mount["Destination"]: mount for mount in found["Mounts"]}
    assert not any(mount["RW"] for mount in mounts.values())
    assert mounts.keys() - {CHANNEL_DIR} == {"/skills"}
    # The place of its socket is gone from the host as soon as the box has connected.
    assert not any(os.path.lexists(mounts[name]["Source"]) for name in mounts.keys() & {CHANNEL_DIR})  # noqa: ASYNC240
    assert (await box.shell(f"find {CHANNEL_DIR} -mindepth 1")).stdout == b""
    assert (host["Binds"] or [], host["Devices"] or [], host["VolumesFrom"] or []) == ([], [], [])
    assert (host["Privileged"], host["CapAdd"] or [], host["CapDrop"]) == (False, [], ["ALL"])
    assert {host[kind] for kind in ("PidMode", "UTSMode", "UsernsMode")} == {""}
    assert (host["IpcMode"], host["NetworkMode"], host["PortBindings"] or {}) == ("private", "none", {})


@DOCKER
async def test_output_is_written_to_no_log(box: Box, daemon: docker.APIClient) -> None:
    found = inspected(daemon, box.name)
    place = Path(daemon.info()["DockerRootDir"], "containers", found["Id"])
    before = directory_bytes(place)
    outcome = await box.shell("head -c 64M /dev/zero", limits=Limits(output_bytes=128 << 20))
    assert outcome.stdout_bytes == 64 << 20
    assert (found["HostConfig"]["LogConfig"]["Type"], found["LogPath"]) == ("none", "")
    assert directory_bytes(place) - before < 64 * 1024


async def test_what_an_image_declares_is_overridden(daemon: docker.APIClient, tmp_path: Path) -> None:
    with image(daemon, "sandbox-skills-test:hostile", HOSTILE) as name:
        engine = engine_on(name, tmp_path)
        async with engine.open(SandboxSpec()) as sandbox:
            found = inspected(daemon, sandbox.id)
            assert sandbox.alive
        await engine.aclose()
    config = found["Config"]
    assert (found["Path"], *found["Args"])[: len(RUNNER_ARGV)] == RUNNER_ARGV
    assert found["Args"][len(RUNNER_ARGV) - 1 :] == ["--channel", f"{CHANNEL_DIR}/channel"]
    assert config["User"].split(":")[0] not in {"", "0", "root"}
    assert (config["WorkingDir"], config["StopSignal"]) == ("/", "SIGKILL")
    assert config["Healthcheck"]["Test"] == ["NONE"]
    assert "Health" not in found["State"]
    assert {"HTTP_PROXY=", "https_proxy=", "LD_PRELOAD=", "PYTHONSTARTUP="} <= set(config["Env"])
    assert "secret" not in str(config["Env"])


async def test_an_image_with_a_volume_is_refused(daemon: docker.APIClient, tmp_path: Path) -> None:
    with image(daemon, "sandbox-skills-test:volume", "VOLUME /data") as name:
        engine = engine_on(name, tmp_path)
        with pytest.raises(ImageError, match="VOLUME /data"):
            async with engine.open(SandboxSpec()):
                pytest.fail("a box with a volume was handed out")
        await engine.aclose()


async def test_an_image_without_the_runner_is_refused(daemon: docker.APIClient, tmp_path: Path) -> None:
    with image(daemon, "sandbox-skills-test:foreign", "LABEL sandbox-skills.protocol=0") as name:
        engine = engine_on(name, tmp_path)
        with pytest.raises(ImageError, match="protocol"):
            async with engine.open(SandboxSpec()):
                pytest.fail("a box that speaks another protocol was handed out")
        await engine.aclose()


async def test_an_honest_image_of_the_users_own_works(daemon: docker.APIClient, tmp_path: Path) -> None:
    with image(daemon, "sandbox-skills-test:honest", "RUN echo mine > /mine") as name:
        engine = engine_on(name, tmp_path)
        async with engine.open(SandboxSpec()) as sandbox:
            assert sandbox.alive
        await engine.aclose()


@DOCKER
async def test_a_box_ends_when_its_channel_ends(open_box: OpenBox, daemon: docker.APIClient) -> None:
    async with open_box() as box:
        assert inspected(daemon, box.name)["State"]["Running"]
        assert isinstance(box.sandbox, RunnerClient)
        box.sandbox.close()  # the channel alone: nobody removes the container
        assert await gone_within(daemon, box.name, ENDS_SECONDS)


async def test_a_box_ends_when_its_host_is_killed(daemon: docker.APIClient, tmp_path: Path) -> None:
    host = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOST_PROCESS, str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    assert host.stdout is not None
    name = (await host.stdout.readline()).decode().strip()
    assert inspected(daemon, name)["State"]["Running"]
    host.kill()
    await host.wait()
    assert await gone_within(daemon, name, ENDS_SECONDS)
