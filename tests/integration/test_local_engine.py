"""The engine that isolates nothing: asked for twice, and still nothing of a run is left."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.engines.local import LocalEngine, LocalEngineOptions, LocalSandbox
from sandbox_skills.errors import GuaranteeError, SettingsError
from sandbox_skills.settings import load_settings
from sandbox_skills.spec import Command, Exited, Guarantee, Limits, SandboxSpec, Stopped
from sandbox_skills.wiring import opened
from sandbox_skills.workspace.manager import RunRequest, Shell
from tests.boxes import processes, workspace

if TYPE_CHECKING:
    from tests.conftest import Program

pytestmark = pytest.mark.anyio

NOTHING = SandboxSpec(needs=frozenset())
FIB = "python3 scripts/fib.py 5 > out/fib.txt && cat $OUTPUT_DIR/fib.txt"
ACCEPTED = ("--engine", "local", "--accept-no-isolation")


async def test_whoever_needs_anything_is_refused(local_engine: LocalEngine) -> None:
    with pytest.raises(GuaranteeError, match="isolates nothing") as caught:
        async with local_engine.open(SandboxSpec(needs=frozenset({Guarantee.NO_NETWORK}))):
            pass
    assert caught.value.lost == ("no_network",)
    assert local_engine.guarantees == frozenset()
    assert set((await local_engine.probe()).lost) == set(Guarantee)


async def test_leaving_ends_every_process_and_directory(local_engine: LocalEngine) -> None:
    async with local_engine.open(NOTHING) as sandbox:
        assert isinstance(sandbox, LocalSandbox)
        command = Command(("sh", "-c", "setsid sleep 60 & sleep 60"), env={"PATH": "/usr/bin:/bin"})
        outcome = await sandbox.run(command, limits=Limits(wall_seconds=0.5))
        assert outcome.ending == Stopped("wall_time")
        place = Path(workspace(sandbox)).parent
        assert len(processes(sandbox)) == 1
    assert not place.exists()
    assert processes(sandbox) == []


async def test_what_a_dead_owner_left_is_swept(tmp_path: Path) -> None:
    engine = LocalEngine(LocalEngineOptions(tmp_path))
    async with engine.open(NOTHING):
        (tmp_path / "local" / "box-dead").mkdir()
        assert await engine.reap(()) == ["box-dead"]
        assert len(list((tmp_path / "local").glob("*"))) == 1


async def test_a_program_that_writes_into_its_skill_does_not_write_into_the_store(tmp_path: Path) -> None:
    given = {"data_dir": str(tmp_path), "engine": "local", "accept_no_isolation": True}
    skill = tmp_path / "skill"
    skill.mkdir()
    (skill / "SKILL.md").write_text("x")
    async with opened(load_settings(given, environ={})) as live:
        chmod = RunRequest(Shell("chmod u+w . SKILL.md && echo changed > SKILL.md && cat SKILL.md"))
        first = await live.manager.run(skill, chmod, tenant="t")
        second = await live.manager.run(skill, RunRequest(Shell("cat SKILL.md")), tenant="t")
    assert (first.outcome.stdout, second.outcome.stdout) == (b"changed\n", b"x")


def test_both_options_in_one_command_run_a_skill_with_its_links(program: Program) -> None:
    done = program.run("run", "python-math", *ACCEPTED, "--command", FIB)
    assert (done.returncode, done.stdout) == (0, "0\n1\n1\n2\n3\n")
    assert "engine local: nothing is isolated" in done.stderr


@pytest.mark.parametrize(
    ("options", "environ", "told"),
    [
        (["--engine", "local"], {}, "engine local isolates nothing: a skill may do all that you may do"),
        (
            ["--accept-no-isolation"],
            {"SANDBOX_SKILLS_ENGINE": "local"},
            "can only be asked for on the command line",
        ),
        (
            ["--engine", "local"],
            {"SANDBOX_SKILLS_ACCEPT_NO_ISOLATION": "1"},
            "unknown setting accept_no_isolation",
        ),
    ],
)
def test_less_than_both_is_refused(
    program: Program, options: list[str], environ: dict[str, str], told: str
) -> None:
    done = program.run("run", "python-math", *options, "--command", "touch $HOME/ran", **environ)
    assert done.returncode == 2
    assert told in done.stderr
    assert "--engine local --accept-no-isolation" in done.stderr or "unknown" in done.stderr


def test_a_settings_file_cannot_ask_for_it(tmp_path: Path) -> None:
    config = tmp_path / "settings.yaml"
    for text in ("engine: local\n", "engine: local\naccept_no_isolation: true\n"):
        config.write_text(text)
        with pytest.raises(SettingsError):
            load_settings({"accept_no_isolation": True}, config=config, environ={})


def test_with_the_command_killed_its_programs_end(program: Program) -> None:
    mark = f"sleep 61.{os.getpid()}"
    started = program.start("run", "python-math", *ACCEPTED, "--command", f"echo up; exec {mark}")
    assert started.stdout is not None
    assert started.stdout.readline() == b"up\n"
    os.kill(started.pid, signal.SIGKILL)
    started.communicate()
    deadline = time.monotonic() + 10
    while any(mark.encode().replace(b" ", b"\0") in line for line in command_lines()):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def command_lines() -> list[bytes]:
    found: list[bytes] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes())
        except OSError:
            continue
    return found


async def test_a_program_that_fails_is_a_value(local_engine: LocalEngine) -> None:
    async with local_engine.open(NOTHING) as sandbox:
        outcome = await sandbox.run(Command(("false",), env={"PATH": "/usr/bin:/bin"}))
    assert outcome.ending == Exited(1)
