"""The program ended from outside, at any time: its sandbox goes with it, and what was shown stays."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.engines.docker_config import LABEL_MANAGED
from tests.integration.relay import relay

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    import docker

    from tests.conftest import Program

pytestmark = pytest.mark.docker

RUN = ("run", "python-math")

GONE_SECONDS = 10.0
"""How long a sandbox may outlive a program that was killed."""

TICKS = "echo so far; trap '' TERM INT HUP; while true; do sleep 0.1; done"


def boxes(daemon: docker.APIClient, program: Program) -> list[str]:
    """Returns the containers that the program made."""
    rows = daemon.containers(all=True, filters={"label": f"{LABEL_MANAGED}=1"})
    mine = str(program.data_dir)
    return [
        row["Id"] for row in rows if any(str(m.get("Source", "")).startswith(mine) for m in row["Mounts"])
    ]


def started(program: Program) -> subprocess.Popen[bytes]:
    """Starts a run that resists every signal, and waits until it has printed."""
    process = program.start(*RUN, "--command", TICKS)
    assert process.stdout is not None
    assert process.stdout.readline() == b"so far\n"
    return process


def to_group(process: subprocess.Popen[bytes], number: int) -> None:
    os.killpg(process.pid, number)


def to_process(process: subprocess.Popen[bytes], number: int) -> None:
    process.send_signal(number)


@pytest.mark.parametrize("send", [to_group, to_process])
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_ends_the_run_and_its_sandbox_at_once(
    program: Program,
    daemon: docker.APIClient,
    send: Callable[[subprocess.Popen[bytes], int], None],
    number: int,
    code: int,
) -> None:
    process = started(program)
    assert len(boxes(daemon, program)) == 1
    send(process, number)
    out, complaint = process.communicate(timeout=15)
    # Before the program ends, not some time after.
    assert boxes(daemon, program) == []
    assert (process.returncode, out) == (code, b"")
    assert complaint.decode() == f"error: stopped by {signal.Signals(number).name}\n"


def test_ctrl_c_twice_still_leaves_nothing(program: Program, daemon: docker.APIClient) -> None:
    process = started(program)
    for _ in range(3):
        to_group(process, signal.SIGINT)
        time.sleep(0.05)
    process.communicate(timeout=15)
    assert process.returncode == 130
    assert boxes(daemon, program) == []


def test_ctrl_c_while_the_sandbox_starts_leaves_nothing(program: Program, daemon: docker.APIClient) -> None:
    process = program.start(*RUN, "--", "sleep", "30")
    deadline = time.monotonic() + 10
    while not boxes(daemon, program) and time.monotonic() < deadline:
        time.sleep(0.005)
    to_process(process, signal.SIGINT)
    process.communicate(timeout=15)
    assert process.returncode == 130
    assert boxes(daemon, program) == []


@pytest.mark.parametrize("seconds", [0.2, 0.3, 0.4, 0.5, 0.6])
def test_ctrl_c_at_any_time_leaves_nothing(
    program: Program, daemon: docker.APIClient, seconds: float
) -> None:
    process = program.start(*RUN, "--", "sleep", "30")
    time.sleep(seconds)
    to_group(process, signal.SIGINT)
    _, complaint = process.communicate(timeout=15)
    # On a busy machine the interpreter may not have come to our code yet: then it dies of the signal itself.
    assert process.returncode in {130, -signal.SIGINT}
    assert boxes(daemon, program) == []
    if process.returncode > 0:
        assert complaint == b"error: stopped by SIGINT\n"


def test_the_sandbox_of_a_program_that_was_killed_ends_by_itself(
    program: Program, daemon: docker.APIClient
) -> None:
    process = started(program)
    process.kill()
    process.communicate(timeout=5)
    deadline = time.monotonic() + GONE_SECONDS
    while boxes(daemon, program) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert boxes(daemon, program) == []


def test_a_reader_that_goes_away_ends_the_run(program: Program, daemon: docker.APIClient) -> None:
    process = program.start(*RUN, "--", "yes")
    assert process.stdout is not None
    assert process.stdout.readline() == b"y\n"
    process.stdout.close()
    _, complaint = process.communicate(timeout=15)
    assert (process.returncode, complaint) == (141, b"")
    assert boxes(daemon, program) == []


def test_a_daemon_that_dies_in_the_middle_fails_the_sandbox(program: Program, tmp_path: Path) -> None:
    with relay(tmp_path / "docker.sock") as way:
        process = program.start(*RUN, "--command", TICKS, environ={"DOCKER_HOST": f"unix://{way.place}"})
        assert process.stdout is not None
        assert process.stdout.readline() == b"so far\n"
        way.cut()
        _, complaint = process.communicate(timeout=15)
    assert process.returncode == 125
    assert complaint.startswith(b"error: ")
    assert b"Traceback" not in complaint


@pytest.mark.parametrize("size", [0, 5_000, 10_000, 15_000, 20_000, 30_000])
def test_a_daemon_that_dies_while_the_sandbox_starts_fails_the_sandbox(
    program: Program, tmp_path: Path, size: int
) -> None:
    with relay(tmp_path / "docker.sock", bytes_until_cut=size) as way:
        done = program.run(*RUN, "--json", "--", "sleep", "30", DOCKER_HOST=f"unix://{way.place}")
    assert (done.returncode, done.stderr) == (125, "")
    assert '"error"' in done.stdout
