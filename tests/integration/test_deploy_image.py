"""The daemon's own image, built and started as `config/deploy` says: it runs a skill in a sandbox beside itself."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from sandbox_skills.client import BlockingSkillsClient, ServerOptions
from sandbox_skills.engines.image import image_tag
from sandbox_skills.spec import Exited
from tests.docker_host import connection

if TYPE_CHECKING:
    from collections.abc import Iterator

    import docker

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "config" / "deploy"
TAG = "sandbox-skills-daemon:test"
USER = 10001

# Most of it is pip, which fetches what the daemon needs for the base's Python.
pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def image(daemon: docker.APIClient) -> Iterator[str]:
    environ = {**os.environ, "PYTHON": sys.executable, "WHEEL_OPTIONS": "--no-build-isolation"}  # noqa: TID251  # a child's environment
    build = ["sh", str(DEPLOY / "build.sh"), image_tag("slim"), TAG]
    subprocess.run(build, env={**environ, "DOCKER_HOST": connection().host}, check=True, timeout=500)
    yield TAG
    daemon.remove_image(TAG, force=True)


@pytest.fixture
def data() -> Iterator[Path]:
    """A folder of the daemon's user, at a path that the Docker Engine knows by the same name."""
    folder = Path("/var/tmp") / f"sandbox-skills-test-{secrets.token_hex(4)}"
    folder.mkdir(mode=0o700)
    os.chown(folder, USER, USER)
    yield folder
    subprocess.run(["rm", "-rf", "--", str(folder)], check=True)


def test_the_image_runs_skills_with_a_read_only_root_and_no_capabilities(
    daemon: docker.APIClient, image: str, data: Path
) -> None:
    (service,) = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"].values()
    socket = connection().host.removeprefix("unix://")
    config = daemon.create_host_config(
        binds=[f"{socket}:/var/run/docker.sock", f"{data}:{data}"],
        read_only=service["read_only"],
        cap_drop=service["cap_drop"],
        security_opt=service["security_opt"],
        pids_limit=service["pids_limit"],
        mem_limit=service["mem_limit"],
        tmpfs=dict([service["tmpfs"][0].split(":", 1)]),
        group_add=[Path(socket).stat().st_gid],
        network_mode="host",
    )
    made: dict[str, Any] = daemon.create_container(
        image,
        ["serve", "--port", "0", "--json"],
        environment={
            "SANDBOX_SKILLS_DATA_DIR": str(data),
            "HOME": str(data),
            "DOCKER_HOST": "unix:///var/run/docker.sock",
        },
        host_config=config,
        user=service["user"],
    )
    try:
        daemon.start(made["Id"])
        told = announced(daemon, made["Id"])
        with BlockingSkillsClient(ServerOptions(told["url"], told["key"])) as client:
            client.skills.upload(ROOT / "skills" / "python-math")
            run = client.runs.run("python-math", command="python3 scripts/fib.py 5 | tail -1; ls /skills")
        assert run.outcome == Exited(2), "the folder of skills is listed by nobody"
        assert run.stdout.strip()
        daemon.stop(made["Id"], timeout=60)
        assert daemon.inspect_container(made["Id"])["State"]["ExitCode"] == 0
    finally:
        daemon.remove_container(made["Id"], force=True)


def announced(daemon: docker.APIClient, container: str) -> dict[str, Any]:
    """Returns what the server prints once it answers."""
    deadline = time.monotonic() + 120
    while True:
        with suppress(ValueError):
            told: dict[str, Any] = json.loads(daemon.logs(container, stdout=True, stderr=False))
            return told
        assert time.monotonic() < deadline, daemon.logs(container)
        time.sleep(0.2)
