"""Three hundred runs, cancelled at any moment and with their processes killed at any moment, leave nothing."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_skills.engines.bubblewrap.cgroup import hierarchies
from sandbox_skills.engines.bubblewrap.leftovers import leftovers
from sandbox_skills.engines.docker_config import LABEL_MANAGED

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Callable

    import docker

    from tests.conftest import Program

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]

RUNS = 300

RUNS_OF_ONE = 20
"""What one process is asked for; two of three are killed before they have begun them all."""

AT_ONCE = 2
"""Processes that share the data directory, the daemon and the skills."""

SEED = 20
"""Of the moments and of who is killed: so that a failure can be had again, as far as two processors allow."""

GONE_SECONDS = 15.0
"""After a process was killed its boxes end by themselves, as soon as their channels have."""


@dataclass
class World:
    """What the processes share, and what they told."""

    engine: str
    data_dir: Path
    skill: Path
    temporary: Path
    begun: int = 0
    killed: int = 0
    held: list[int] = field(default_factory=list)
    instances: set[str] = field(default_factory=set)
    launchers: set[int] = field(default_factory=set)
    failed: list[str] = field(default_factory=list)
    complaints: list[bytes] = field(default_factory=list)

    def take(self, line: bytes) -> None:
        told: dict[str, Any] = json.loads(line)
        self.begun += "begun" in told
        self.held += [told["held"]] if "held" in told else []
        self.failed += [told["failed"]] if "failed" in told else []
        if "instance" in told:
            self.instances.add(told["instance"])
            self.launchers |= {told["launcher"]} - {None}


async def one_process(world: World, environ: dict[str, str], chance: random.Random) -> None:
    """Starts a process and reads what it tells, until it ends or its moment has come."""
    given = {
        "data_dir": str(world.data_dir),
        "engine": world.engine,
        "skill": str(world.skill),
        "settings": {
            "sandbox.memory": "128MiB",
            "sandbox.workspace_bytes": "16MiB",
            "sandbox.tmp_bytes": "8MiB",
        },
        "runs": RUNS_OF_ONE,
        "seed": chance.getrandbits(32),
    }
    lines = chance.randrange(RUNS_OF_ONE) if chance.random() < 2 / 3 else None
    moment = chance.uniform(0, 0.3)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.integration.restless_owner", json.dumps(given)),
        cwd=ROOT,
        env=environ,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        complaint = await _watched(world, process, lines, moment)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    if process.returncode != -signal.SIGKILL:
        assert process.returncode == 0, complaint.decode()


async def _watched(world: World, process: Process, lines: int | None, moment: float) -> bytes:
    assert process.stdout is not None
    async for line in process.stdout:
        world.take(line)
        if lines is not None and b"begun" in line:
            lines -= 1
            if lines < 0:
                await asyncio.sleep(moment)
                process.kill()
                world.killed += 1
                lines = None
    return (await process.communicate())[1]


async def all_processes(world: World, environ: dict[str, str]) -> None:
    chance = random.Random(SEED)

    async def in_turn() -> None:
        while world.begun < RUNS:
            await one_process(world, environ, chance)

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(in_turn())


async def until_none(left: Callable[[], list[str]]) -> None:
    deadline = time.monotonic() + GONE_SECONDS
    while found := left():
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.05)


def files(data_dir: Path) -> list[str]:
    """What is there beside what is meant to stay: staged skills, artifacts, the record of runs, locks and databases."""
    places = ("sockets", "store/sockets", "snapshots", "store/temporary", "cache")
    found = [path for place in places for path in (data_dir / place).glob("*") if (data_dir / place).is_dir()]
    return [str(path) for path in [*found, *data_dir.glob("artifacts/*/incoming/*")]]


def mounts(folder: Path) -> list[str]:
    rows = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    return [row for row in rows if str(folder) in row]


def processes_that_say(*words: str) -> list[str]:
    """Processes that have one of these words in what they were started with or in the name of their cgroup."""
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            text = (path / "cmdline").read_bytes() + (path / "cgroup").read_bytes()
            if any(word.encode() in text for word in words):
                found.append(f"{path.name}: {text!r}")
    return found


@pytest.fixture
def world(tmp_path: Path, request: pytest.FixtureRequest) -> World:
    for name in ("data", "skills", "skills/skill", "temporary"):
        (tmp_path / name).mkdir()
    (tmp_path / "skills/skill/SKILL.md").write_text("x", encoding="utf-8")
    if request.param == "bubblewrap":
        (tmp_path / "data/rootfs").symlink_to(request.getfixturevalue("root_file_systems"))
    return World(request.param, tmp_path / "data", tmp_path / "skills/skill", tmp_path / "temporary")


@pytest.mark.parametrize(
    "world",
    [
        pytest.param("docker", marks=pytest.mark.docker),
        pytest.param("bubblewrap", marks=[pytest.mark.bubblewrap, pytest.mark.root]),
    ],
    indirect=True,
)
async def test_three_hundred_runs_leave_nothing(
    world: World, program: Program, daemon: docker.APIClient
) -> None:
    print(f"seed {SEED}")
    environ = program.environ(
        SANDBOX_SKILLS_DATA_DIR=str(world.data_dir),
        SANDBOX_SKILLS_ENGINE=world.engine,
        TMPDIR=str(world.temporary),
    )
    started = time.monotonic()
    await all_processes(world, environ)
    print(
        f"{world.begun} runs in {len(world.instances)} processes, {world.killed} of them killed, "
        f"{time.monotonic() - started:.0f} s, {len(world.failed)} failed: {sorted(set(world.failed))}"
    )

    def boxes(*states: str) -> list[str]:
        filters = {"label": f"{LABEL_MANAGED}=1", **({"status": list(states)} if states else {})}
        rows = daemon.containers(all=True, filters=filters)
        containers = [
            row["Id"] for row in rows if row["Labels"]["sandbox-skills.instance"] in world.instances
        ]
        groups = [box.id for box in leftovers(hierarchies()) if box.instance in world.instances]
        return [*containers, *groups]

    # By itself, before anybody cleans up, goes all that has a process or takes memory: nobody may ever come.
    await until_none(lambda: boxes("running", "paused", "restarting", "removing", "exited", "dead"))
    await until_none(lambda: processes_that_say(str(world.data_dir), *world.instances))
    await until_none(lambda: [str(pid) for pid in world.launchers if Path(f"/proc/{pid}/exe").exists()])
    done = await asyncio.to_thread(program.run, "gc", "--json", **environ)
    assert done.returncode == 0, done.stderr
    assert boxes() == []
    assert files(world.data_dir) == []
    assert mounts(world.data_dir) == []
    assert list(world.temporary.iterdir()) == []
    # A process that ended by itself holds what it held before.
    assert max(world.held) <= 0, world.held
    assert (world.killed >= 5, len(world.held) >= 3) == (True, True)
