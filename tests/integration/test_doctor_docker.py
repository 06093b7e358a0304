from __future__ import annotations

import re
import secrets
import time
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.engines.docker import DockerEngine, DockerEngineOptions
from sandbox_skills.engines.docker_config import LABEL_EXPIRES, LABEL_MANAGED
from sandbox_skills.engines.doctor import DoctorOptions, examine
from sandbox_skills.engines.image import image_tag
from sandbox_skills.engines.pool import PooledEngine
from sandbox_skills.spec import SandboxSpec
from tests.docker_host import connection

if TYPE_CHECKING:
    from pathlib import Path

    import docker

    from sandbox_skills.engines.doctor.checks import Check

pytestmark = [pytest.mark.docker, pytest.mark.anyio]


async def examined(options: DoctorOptions) -> dict[str, Check]:
    return {check.name: check for check in await examine(options)}


async def test_the_daemon_and_the_image_that_tests_use_are_fit(
    daemon: docker.APIClient, tmp_path: Path
) -> None:
    found = await examined(DoctorOptions(tmp_path, connection()))
    # An AppArmor of the host is welcome and not demanded.
    assert not [check for check in found.values() if check.state == "failed"]
    assert found["image"].detail.startswith(image_tag("slim"))
    assert {"engine", "platform", "api version", "daemon", "limits", "docker disk"} <= found.keys()


async def test_an_image_that_nobody_has_is_told(daemon: docker.APIClient, tmp_path: Path) -> None:
    found = await examined(DoctorOptions(tmp_path, connection(), image="sandbox-skills-test:nobody-has-this"))
    assert found["image"].state == "failed"
    assert found["image"].fix


async def test_a_sandbox_whose_time_is_over_is_left_over(daemon: docker.APIClient, tmp_path: Path) -> None:
    name = f"sandbox-{secrets.token_hex(8)}"
    labels = {LABEL_MANAGED: "1", LABEL_EXPIRES: str(int(time.time()) - 60)}
    daemon.create_container(image_tag("slim"), name=name, labels=labels)
    try:
        found = await examined(DoctorOptions(tmp_path, connection()))
        assert (found["leftovers"].state, found["leftovers"].fix) == ("warning", "sandbox-skills gc")
    finally:
        daemon.remove_container(name, force=True)


async def test_what_waits_in_a_pool_is_told_with_its_memory(daemon: docker.APIClient, tmp_path: Path) -> None:
    engine = DockerEngine(DockerEngineOptions(tmp_path / "engine", connection()))
    async with PooledEngine(engine, SandboxSpec(), size=1) as pool:
        await pool.filled()
        told = (await examined(DoctorOptions(tmp_path, connection())))["leftovers"].detail
    memory = re.search(r"in use, ([0-9.]+) MiB of memory each$", told)
    assert memory, told
    assert 1 < float(memory[1]) < 100
