"""The program ended from outside, at any time: its sandbox goes with it, and what was shown stays."""

from __future__ import annotations

import array
import fcntl
import os
import signal
import subprocess
import termios
import time
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.engines.docker_config import LABEL_MANAGED
from sandbox_skills.engines.instance import dead_instances
from tests.integration.relay import relay

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import docker

    from tests.conftest import Program

pytestmark = pytest.mark.docker

RUN = ("run", "python-math")

GONE_SECONDS = 10.0
"""How long a sandbox may outlive a program that was killed."""

HELD_UP = 10.0
"""Seconds after which a program waits for a daemon that answers after a minute; without, it ends within one."""

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


def await_full(pipe: int) -> None:
    """Returns once a pipe that nobody reads takes no more."""
    size = fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)
    waiting, deadline = array.array("i", [0]), time.monotonic() + 10
    while waiting[0] < size and time.monotonic() < deadline:
        time.sleep(0.02)
        fcntl.ioctl(pipe, termios.FIONREAD, waiting)
    assert waiting[0] == size


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_reader_that_never_reads_holds_up_no_signal(
    program: Program, daemon: docker.APIClient, number: int, code: int, *, merged: bool
) -> None:
    stderr = {"stderr": subprocess.STDOUT} if merged else {}
    process = program.start(*RUN, "--", "yes", **stderr)
    assert process.stdout is not None
    await_full(process.stdout.fileno())
    process.send_signal(number)
    assert process.wait(timeout=10) == code
    assert boxes(daemon, program) == []
    if process.stderr is not None:
        assert process.stderr.read() == f"error: stopped by {signal.Signals(number).name}\n".encode()
        process.stderr.close()
    process.stdout.close()


def test_a_reader_of_json_that_never_reads_holds_up_no_signal(program: Program) -> None:
    process = program.start(*RUN, "--json", "--", "head", "-c", "500000", "/dev/zero")
    assert process.stdout is not None
    await_full(process.stdout.fileno())
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=10) == 143
    process.communicate()


def test_the_sandbox_goes_when_the_run_is_over_not_when_all_of_it_was_read(
    program: Program, daemon: docker.APIClient
) -> None:
    process = program.start(*RUN, "--command", "head -c 1000000 /dev/zero; exit 3")
    assert process.stdout is not None
    await_full(process.stdout.fileno())
    deadline = time.monotonic() + GONE_SECONDS
    while boxes(daemon, program) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert (boxes(daemon, program), process.poll()) == ([], None)
    out, _ = process.communicate(timeout=10)
    assert (process.returncode, len(out)) == (3, 1_000_000)


QUESTIONS = [rb"GET /v[\d.]+/version", rb"GET /v[\d.]+/info", rb"GET /v[\d.]+/images/"]


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_daemon_that_does_not_answer_a_question_holds_up_no_signal(
    program: Program, tmp_path: Path, question: bytes
) -> None:
    with relay(tmp_path / "docker.sock", slow={question: 60.0}) as way:
        process = program.start(*RUN, "--", "true", environ={"DOCKER_HOST": f"unix://{way.place}"})
        assert way.held.wait(10)
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=HELD_UP)
    assert (process.returncode, complaint) == (130, b"error: stopped by SIGINT\n")


def test_a_second_signal_leaves_a_daemon_that_hangs_at_once(
    program: Program, daemon: docker.APIClient, tmp_path: Path
) -> None:
    with relay(tmp_path / "docker.sock", slow={rb"DELETE ": 60.0}) as way:
        process = program.start(*RUN, "--command", TICKS, environ={"DOCKER_HOST": f"unix://{way.place}"})
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"so far\n"
        process.send_signal(signal.SIGINT)
        assert way.held.wait(10)
        assert process.stderr.readline() == (
            b"stopping: waiting for the Docker daemon to end and remove what was started there; "
            b"another SIGINT leaves it to the next command\n"
        )
        process.send_signal(signal.SIGTERM)
        # At once, or when the daemon has been waited for: then it says otherwise.
        _, complaint = process.communicate(timeout=HELD_UP)
    assert process.returncode == 143
    assert complaint.startswith(b"error: ended before all was cleaned up")
    dead = dead_instances(program.data_dir / "instances")
    assert len(dead) >= 1
    # Without its process it ends by itself; whatever is left of it is the next command's.
    assert program.run("gc").returncode == 0
    assert boxes(daemon, program) == []
