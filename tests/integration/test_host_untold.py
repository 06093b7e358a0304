"""Nothing in a box tells whose host it is, and nothing on the host's process list tells a run's secrets."""

from __future__ import annotations

import asyncio
import json
import os
import re
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import docker
import docker.errors
import pytest

from sandbox_skills.settings import load_settings
from sandbox_skills.wiring import opened
from sandbox_skills.workspace.manager import RunRequest, Shell

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from sandbox_skills.wiring import Live

pytestmark = pytest.mark.anyio

NAME = "canary-user"
"""In every path and variable of the host that a box could be told of."""

SECRET = "canary-secret-8d1f7e"

TENANT = "canary-user-tenant"

ENGINES = [
    pytest.param("docker", marks=pytest.mark.docker),
    pytest.param("bubblewrap", marks=[pytest.mark.bubblewrap, pytest.mark.root]),
]

# The name in two parts: what looks for it is not to find itself.
LOOK = f"""
env; hostname; uname -n; id; pwd -P
cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline /proc/[0-9]*/cgroup /proc/[0-9]*/mountinfo /proc/[0-9]*/mounts \\
  /proc/[0-9]*/mountstats /proc/[0-9]*/maps /proc/[0-9]*/status /proc/net/unix /proc/keys 2> /dev/null | tr '\\0' '\\n'
ls -l /proc/[0-9]*/fd /proc/[0-9]*/cwd /proc/[0-9]*/exe 2> /dev/null
find / -xdev -name '*canary*'; find /workspace /tmp /run /dev /skills /sys/fs/cgroup -name '*canary*'
grep -rls {NAME[:3]}''{NAME[3:]} /etc /run /opt /tmp /workspace /skills /root /home /var /sys/fs 2> /dev/null
true
"""

WAIT = "sleep 1.5"


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The home directory of somebody whose name is to stay his own; the store lies where `store.dir` says."""
    home = tmp_path / NAME
    (home / "skill").mkdir(parents=True)
    (home / "skill" / "SKILL.md").write_text("x", encoding="utf-8")
    for name in ("HOME", "PWD", "OLDPWD", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(home))
    for name in ("USER", "LOGNAME", "SUDO_USER", "HOSTNAME", "MAIL"):
        monkeypatch.setenv(name, NAME)
    monkeypatch.setenv("OPENROUTER_API_KEY", SECRET)
    monkeypatch.chdir(home)
    return home


@pytest.fixture
def neutral() -> Iterator[Path]:
    with TemporaryDirectory(dir="/var/tmp", prefix="neutral-") as place:
        yield Path(place)


@asynccontextmanager
async def wired(
    engine: str, host: Path, neutral: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Live]:
    data_dir = host / "data"
    if engine == "bubblewrap":
        data_dir.mkdir()
        (data_dir / "rootfs").symlink_to(request.getfixturevalue("root_file_systems"))
    given = {"data_dir": str(data_dir), "store.dir": str(neutral / "store"), "engine": engine}
    async with opened(load_settings(given)) as live:
        yield live


def command_lines() -> dict[str, bytes]:
    """What every process of the host was started with."""
    found: dict[str, bytes] = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found[path.parent.name] = path.read_bytes()
    return found


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_box_is_not_told_whose_host_it_is(
    engine: str, host: Path, neutral: Path, request: pytest.FixtureRequest
) -> None:
    async with wired(engine, host, neutral, request) as live:
        result = await live.manager.run(host / "skill", RunRequest(Shell(LOOK)), tenant=TENANT)
    told = result.outcome.stdout.decode(errors="replace")
    assert result.outcome.ok, result.outcome
    assert "HOME=/workspace/home" in told  # it did look
    # The host's name as a word: a short one may be a part of any name that is made by chance.
    words = (NAME, SECRET, str(Path(__file__).parents[2]))
    sought = re.compile("|".join([*map(re.escape, words), rf"\b{re.escape(os.uname().nodename)}\b"]))
    assert [line for line in told.splitlines() if sought.search(line)] == []


@pytest.mark.parametrize("engine", ENGINES)
async def test_no_command_line_on_the_host_has_a_secret(
    engine: str, host: Path, neutral: Path, request: pytest.FixtureRequest
) -> None:
    asked = RunRequest(
        Shell(f"{WAIT}; test $GRANTED = $GIVEN && cat; echo $GRANTED"),
        env={"GIVEN": SECRET},
        grants={"GRANTED": SECRET},
        stdin=f"{SECRET}\n".encode(),
        editor_text=SECRET,
    )
    seen: list[dict[str, bytes]] = []
    about = ""
    async with wired(engine, host, neutral, request) as live:
        run = asyncio.ensure_future(live.manager.run(host / "skill", asked, tenant=TENANT))
        while not run.done():
            seen.append(await asyncio.to_thread(command_lines))
            if engine == "docker":
                about += await asyncio.to_thread(told_of_boxes, request.getfixturevalue("daemon"))
            await asyncio.sleep(0.02)
        result = await run
    assert result.outcome.ok, result.outcome
    # What runs in the box is on the host's list as well, and was seen there.
    assert any(b"sleep\x001.5" in line for found in seen for line in found.values())
    assert [line for found in seen for line in found.values() if SECRET.encode() in line] == []
    assert SECRET not in about
    assert ("sandbox-skills.instance" in about) == (engine == "docker")
    assert SECRET.encode() not in result.outcome.stdout


def told_of_boxes(daemon: docker.APIClient) -> str:
    found: list[object] = []
    for row in daemon.containers(all=True, filters={"label": "sandbox-skills.managed=1"}):
        with suppress(docker.errors.NotFound):  # it has ended meanwhile
            found.append(daemon.inspect_container(row["Id"]))
    return json.dumps(found)
