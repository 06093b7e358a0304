"""A box knows nothing of its host's environment, keeps nothing for the next one, and loads nothing by the side."""

from __future__ import annotations

import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.directories import current_account, tells_of
from sandbox_skills.engines.docker import DockerEngine, DockerEngineOptions
from sandbox_skills.workspace.manager import Argv, RunRequest, Shell, WorkspaceManager
from sandbox_skills.workspace.staging import SkillStore
from tests.docker_host import connection

if TYPE_CHECKING:
    from sandbox_skills.workspace.staging import StagedSkill
    from tests.security.conftest import Look

pytestmark = [pytest.mark.anyio]

CANARY = "canary-1f0c2d7e"
TENANT = "tenant-of-the-host"

GIVEN = {
    *("HOME", "LANG", "OUTPUT_DIR", "PATH", "PYTHONDONTWRITEBYTECODE", "PYTHONNOUSERSITE", "PYTHONPATH"),
    *(
        "PYTHONUNBUFFERED",
        "RUN_DIR",
        "SHELL",
        "SKILLS_DIR",
        "SKILL_NAME",
        "TMPDIR",
        "VIRTUAL_ENV",
        "WORKSPACE_DIR",
    ),
    "WORK_DIR",
}

SEARCH = """
cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline /proc/self/mountinfo /proc/self/mounts 2>/dev/null | tr '\\0' '\\n'
env; hostname; cat /etc/hostname /etc/hosts /etc/resolv.conf
grep -rs canary- /etc /opt /run /tmp /workspace /var /root /home /dev/shm
true
"""

SOCKETS = """
for path in /run /var/run /tmp /workspace /dev; do find $path -type s; done
find / -xdev -name '*.sock' -not -path '/proc/*'; ls -d /var/lib/docker /run/docker* /host* 2>/dev/null
true
"""

USER_SITE = """
place=$(python3 -s -c 'import site; print(site.getusersitepackages())')
mkdir -p $place && echo 'print("loaded by the side")' | tee $place/usercustomize.py > $place/sitecustomize.py
echo 'import os; print("loaded by a path file")' > $place/evil.pth
echo 'echo loaded by bash' | tee ~/.bashrc ~/.profile > ~/.bash_profile
printf '#!/bin/sh\\necho shadowed' > /workspace/work/true && chmod +x /workspace/work/true
"""


@pytest.fixture
async def staged(manager: WorkspaceManager, samples: Path) -> StagedSkill:
    return await manager.stage(samples / "python-math", tenant=TENANT)


@pytest.fixture
def host_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("API_KEY", "OPENROUTER_API_KEY", "HTTP_PROXY", "LD_LIBRARY_PATH_CANARY"):
        monkeypatch.setenv(name, CANARY)


async def test_the_environment_is_what_the_manager_says(
    manager: WorkspaceManager, staged: StagedSkill, host_secret: None
) -> None:
    async with manager.session(tenant=TENANT) as session:
        result = await session.run(staged, RunRequest(Argv(("env", "-0")), env={"GRANTED": "1"}))
    names = {row.split("=")[0] for row in result.outcome.stdout.decode().split("\0") if row}
    assert names == GIVEN | {"GRANTED"}


async def test_nothing_tells_the_hosts_secrets_or_the_tenant(
    manager: WorkspaceManager, staged: StagedSkill, look: Look, host_secret: None
) -> None:
    async with manager.session(tenant=TENANT) as session:
        outcome = (await session.run(staged, RunRequest(Shell(SEARCH)))).outcome
        told = look(session.sandbox).configuration()
    assert outcome.ok
    for secret in (CANARY, TENANT, os.uname().nodename):
        assert secret.encode() not in outcome.stdout, secret
    assert b"sandbox\n" in outcome.stdout
    assert CANARY not in told


async def test_the_mount_table_tells_nothing_of_the_host_but_where_the_store_lies(
    manager: WorkspaceManager, staged: StagedSkill, store: SkillStore
) -> None:
    look = RunRequest(Shell("cat /proc/self/mountinfo /proc/self/mounts /proc/self/mountstats"))
    async with manager.session(tenant=TENANT) as session:
        outcome = (await session.run(staged, look)).outcome
    assert outcome.ok
    table = outcome.stdout.decode()
    place = str(store.mount_dir)
    device_path = [line.split()[3] for line in table.splitlines() if " /skills " in line and " - " in line]
    assert [place.endswith(path) for path in device_path] == [True]
    rest = table.replace(device_path[0], "")
    assert not tells_of(Path("/", *re.split(r"[\s/:,=]+", rest)), current_account())
    assert str(Path(__file__).parents[2]) not in rest


@pytest.mark.root
async def test_a_store_in_a_neutral_place_tells_no_name(tmp_path: Path, samples: Path) -> None:
    with TemporaryDirectory(dir="/var/lib", prefix="neutral-") as place:
        store = SkillStore(Path(place) / "store")
        options = DockerEngineOptions(tmp_path, connection(), store.mount_dir, store.marker())
        engine = DockerEngine(options)
        manager = WorkspaceManager(engine, store)
        request = RunRequest(Argv(("cat", "/proc/self/mountinfo")))
        outcome = (await manager.run(samples / "python-math", request, tenant=TENANT)).outcome
        await engine.aclose()
    words = re.split(r"[\s/:,=]+", outcome.stdout.decode())
    assert not tells_of(Path("/", *words), current_account())


async def test_a_granted_value_reaches_its_run_and_no_other(
    manager: WorkspaceManager, staged: StagedSkill
) -> None:
    ask = Shell("printenv GRANTED; cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c GRANTED")
    async with manager.session(tenant=TENANT) as session:
        first = await session.run(staged, RunRequest(ask, env={"GRANTED": "yes"}))
        second = await session.run(staged, RunRequest(ask))
    assert first.outcome.stdout.startswith(b"yes\n")
    assert second.outcome.stdout == b"0\n"


async def test_there_is_no_engine_socket_and_no_directory_of_the_host(
    manager: WorkspaceManager, staged: StagedSkill
) -> None:
    async with manager.session(tenant=TENANT) as session:
        outcome = (await session.run(staged, RunRequest(Shell(SOCKETS)))).outcome
    assert (outcome.ok, outcome.stdout) == (True, b"")


async def test_what_a_run_leaves_in_its_home_is_not_loaded_by_the_next(
    manager: WorkspaceManager, staged: StagedSkill
) -> None:
    async with manager.session(tenant=TENANT) as session:
        assert (await session.run(staged, RunRequest(Shell(USER_SITE)))).outcome.ok
        python = await session.run(staged, RunRequest(Argv(("python3", "-c", "print('clean')"))))
        shell = await session.run(staged, RunRequest(Shell("true; echo clean")))
    assert (python.outcome.stdout, shell.outcome.stdout) == (b"clean\n", b"clean\n")


async def test_nothing_of_a_session_is_in_the_next(manager: WorkspaceManager, staged: StagedSkill) -> None:
    leave = Shell(f"for place in ~ /tmp /dev/shm $WORK_DIR $OUTPUT_DIR; do echo {CANARY} > $place/left; done")
    async with manager.session(tenant=TENANT) as session:
        assert (await session.run(staged, RunRequest(leave))).outcome.ok
        kept = await session.run(staged, RunRequest(Shell("cat ~/left")))
        assert kept.outcome.stdout == f"{CANARY}\n".encode()
    async with manager.session(tenant=TENANT) as session:
        found = await session.run(staged, RunRequest(Shell("find /workspace /tmp /dev/shm -name left")))
        assert found.outcome.stdout == b""
