"""The program as a process: its start, its streams, signals, and what it takes from its surroundings. No Docker."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.conftest import Program

ROOT = Path(__file__).parents[3]

LIBRARIES = "import pydantic_settings, typer.main, yaml"

RATIOS = {"--help": 0.6, "list": 2}
"""Most processor time, in that of an interpreter that imports the libraries of `list`: 0.3 and 1.3 to 1.6 were seen.
An interpreter that does nothing is no measure: on a busy machine it gets slower by less. What each imports is the
sharper test."""

HEAVY = ("docker", "httpx", "jsonschema", "mcp", "openai", "anyio", "sqlite3")
"""What neither `--help` nor `list` has a use for."""

HEAVY_FOR_HELP = (
    *HEAVY,
    "asyncio",
    "email",
    "importlib.metadata",
    "pydantic",
    "rich",
    "yaml",
    "sandbox_skills.settings",
    "sandbox_skills.spec.limits",
    "sandbox_skills.spec.outcome",
    "sandbox_skills.catalog",
)

HEAVY_FOR_LIST = (
    *HEAVY,
    "opentelemetry",
    "pygments",
    "rich.console",
    "rich.text",
    "sandbox_skills.artifacts.local",
    "sandbox_skills.artifacts.store",
    "sandbox_skills.catalog.pin_text",
    "sandbox_skills.controller.options",
    "sandbox_skills.engines",
    "sandbox_skills.install.library",
    "sandbox_skills.install.trust",
    "sandbox_skills.policy.deciding",
    "sandbox_skills.spec.command",
    "sandbox_skills.spec.outcome",
    "sandbox_skills.toolsets.workspace_tools.state",
    "sandbox_skills.wiring.live",
    "sandbox_skills.workspace.manager",
)

HEAVY_FOR_DEFAULTS = (
    *HEAVY_FOR_LIST,
    "annotated_types",
    "asyncio",
    "dotenv",
    "email",
    "importlib.metadata",
    "pydantic",
    "pydantic_core",
    "pydantic_settings",
)
"""What checks settings, where there is one to check, and what else `list` has no use for."""

FAKE = ("--engine", "fake", "run", "python-math")

NOTICE = b"engine fake: nothing is run\n"

AS_ROOT_WITHOUT_RIGHTS = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--")
"""Another user could not read the interpreter, where that is below root's home."""

OTHER_USER = 65534

NO_DOCKER = {"DOCKER_HOST": "unix:///nowhere/docker.sock"}


def imported(program: Program, *command: str, **environ: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", program.path, *command],
        env=program.environ(**environ),
        cwd=program.cwd,
        capture_output=True,
        text=True,
        check=True,
    )
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}


@pytest.mark.parametrize(
    ("command", "heavy"), [("--help", HEAVY_FOR_HELP), ("list", HEAVY_FOR_LIST)], ids=["help", "list"]
)
def test_a_command_that_only_tells_imports_nothing_heavy(
    program: Program, command: str, heavy: Sequence[str]
) -> None:
    modules = imported(program, command)
    assert "typer" in modules
    assert not modules & set(heavy)


def test_where_only_folders_are_given_nothing_is_imported_that_would_check_values(program: Program) -> None:
    shutil.copytree(ROOT / "skills" / "python-math", program.cwd / "skills" / "python-math")
    unset = {"SANDBOX_SKILLS_DATA_DIR": "", "SKILLS_ROOT": ""}
    for modules in (
        imported(program, "list", **unset),
        imported(program, "list"),
        imported(program, "list", "--skills", "skills"),
        imported(program, "list", "--engine", ""),
    ):
        assert "sandbox_skills.catalog.parse" in modules
        assert not modules & set(HEAVY_FOR_DEFAULTS)
    assert imported(program, "list", "--engine", "fake") >= {"pydantic", "pydantic_settings"}


def processor_seconds(*argv: str, program: Program) -> float:
    """Returns the least of some starts: a busy machine makes some of them slower, none quicker."""

    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(argv, env=program.environ(), cwd=program.cwd, stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return min(once() for _ in range(5))


@pytest.mark.slow
@pytest.mark.timeout(60)  # ten starts, of which each may take seconds beside other work
@pytest.mark.parametrize("command", RATIOS)
def test_a_command_that_only_tells_is_quick(program: Program, command: str) -> None:
    libraries = processor_seconds(sys.executable, "-c", LIBRARIES, program=program)
    assert processor_seconds(program.path, command, program=program) < RATIOS[command] * libraries


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["image", "status"], 125),
        (["image", "build"], 125),
        (["gc"], 125),
        (["demo"], 125),
        (["run", "python-math", "--", "true"], 125),
        (["doctor"], 1),
    ],
)
def test_without_docker_each_command_says_what_to_do(
    program: Program, arguments: list[str], code: int
) -> None:
    done = program.run(*arguments, **NO_DOCKER)
    assert done.returncode == code
    assert "start Docker, or name its address in DOCKER_HOST" in done.stdout + done.stderr
    assert "/nowhere/docker.sock: no daemon listens there" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_without_docker_json_has_the_code_and_the_next_step(program: Program) -> None:
    done = program.run("run", "python-math", "--json", "--", "true", **NO_DOCKER)
    assert (done.returncode, done.stderr) == (125, "")
    assert '"code": "engine_unavailable"' in done.stdout


@pytest.mark.root
def test_a_daemon_that_does_not_let_us_in_says_how_to_get_in(program: Program, tmp_path: Path) -> None:
    place = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen()
        place.chmod(0o600)
        os.chown(place, OTHER_USER, OTHER_USER)
        done = subprocess.run(
            [*AS_ROOT_WITHOUT_RIGHTS, program.path, "image", "status"],
            env=program.environ(DOCKER_HOST=f"unix://{place}"),
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 125
    assert "permission denied on its socket" in done.stderr
    assert "member of the group that owns the socket" in done.stderr


def test_a_reader_that_goes_away_ends_the_program_quietly(program: Program) -> None:
    for arguments in (["list"], ["show", "python-math", "--json"], ["--help"], [*FAKE, "--", "yes"]):
        process = program.start(*arguments)
        assert process.stdout is not None
        process.stdout.close()
        _, complaint = process.communicate(timeout=10)
        assert (process.returncode, complaint.removeprefix(NOTICE)) == (141, b""), arguments


def test_head_ends_a_run_that_prints_for_ever(program: Program) -> None:
    process = program.start(*FAKE, "--", "yes")
    assert process.stdout is not None
    assert process.stdout.readline() == b"y\n"
    process.stdout.close()
    _, complaint = process.communicate(timeout=10)
    assert (process.returncode, complaint.removeprefix(NOTICE)) == (141, b"")


def test_a_full_device_is_told_once(program: Program) -> None:
    for arguments in (["list"], ["list", "--json"], ["--help"], [*FAKE, "--", "echo", "x"]):
        with open("/dev/full", "wb") as full:  # noqa: PTH123  # a device
            process = program.start(*arguments, stdout=full)
            complaint = process.communicate(timeout=10)[1].removeprefix(NOTICE)
        assert process.returncode == 125, arguments
        assert complaint.startswith(b"error: "), complaint
        assert complaint.endswith(b"No space left on device\n"), complaint
        assert complaint.count(b"\n") == 1


def test_closed_streams_are_no_error(program: Program) -> None:
    script = '"$0" "$@" <&- >&- 2>&-'
    for arguments in (["list"], ["list", "--json"], [*FAKE, "--", "echo", "x"]):
        done = subprocess.run(
            ["sh", "-c", script, program.path, *arguments], env=program.environ(), check=False
        )
        assert done.returncode == 0, arguments


def test_our_input_is_not_the_programs(program: Program) -> None:
    process = program.start(*FAKE, "--", "cat", stdin=subprocess.PIPE)
    out, _ = process.communicate(b"for you only", timeout=10)
    assert (process.returncode, out) == (0, b"")


def test_names_that_are_not_utf_8_are_told_escaped(program: Program) -> None:
    name = os.fsdecode(b"\xff\xfe")
    for extra in ([], ["--json"]):
        done = program.run(*FAKE, "--input", name, *extra, "--", "true")
        assert done.returncode == 2
        assert "udcff" in done.stdout + done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_ends_the_run_and_keeps_what_was_shown(program: Program, number: int, code: int) -> None:
    process = program.start(*FAKE, "--", "yes", environ={"SANDBOX_SKILLS_RUN__OUTPUT_BYTES": "10GB"})
    assert process.stdout is not None
    assert process.stdout.read(2) == b"y\n"
    process.send_signal(number)
    _, complaint = process.communicate(timeout=15)
    assert process.returncode == code
    assert complaint.removeprefix(NOTICE).decode() == f"error: stopped by {signal.Signals(number).name}\n"


def hears_signals(pid: int) -> bool:
    """Tells whether a process has handlers of its own: the last that is installed is SIGHUP's."""
    caught = Path(f"/proc/{pid}/status").read_text(encoding="ascii").split("SigCgt:")[1].split()[0]
    return bool(int(caught, 16) & 1 << (signal.SIGHUP - 1))


def test_a_signal_is_told_in_json_too(program: Program) -> None:
    process = program.start(*FAKE, "--json", "--", "sleep", "60")
    deadline = time.monotonic() + 15
    while not hears_signals(process.pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, complaint = process.communicate(timeout=15)
    assert (process.returncode, complaint) == (130, b"")
    assert b'"code": "interrupted"' in out
