from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.engines.wire import Kind

if TYPE_CHECKING:
    from typing import Unpack

    from tests.unit.runner.conftest import Finished, Host, Options

STUBBORN = """
import os, signal, subprocess, sys, time
kind, mark = sys.argv[1:]

def settle():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with open(mark + ".part", "w") as file:
        file.write(str(os.getpid()))
    os.rename(mark + ".part", mark)
    if kind == "headless":
        import ctypes, threading
        threading.Thread(target=time.sleep, args=(60,)).start()
        ctypes.CDLL(None).pthread_exit(None)
    if kind == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    while True:
        time.sleep(60)

if os.fork() == 0:
    if kind != "child":
        os.setsid()
        if os.fork():
            os._exit(0)
    if kind == "quiet":
        null = os.open("/dev/null", os.O_RDWR)
        for descriptor in range(3):
            os.dup2(null, descriptor)
    settle()
while not os.path.exists(mark):
    time.sleep(0.005)
"""

KINDS = ["child", "daemon", "quiet", "stopped", "headless"]


def alive(pid: int) -> bool:
    """Tells whether a process runs; one that is dead but not yet buried does not."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return fields[0] not in {"Z", "X"} or int(fields[17]) > 1
    except OSError:
        return False


def children(pid: int) -> list[int]:
    return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def stubborn(host: Host, kind: str, after: str = "", **options: Unpack[Options]) -> tuple[Finished, int]:
    """Runs a program that leaves a process behind; returns its end and the pid of the other."""
    done = host.python(STUBBORN + after, kind, str(host.workspace / "mark"), **options)
    return done, int((host.workspace / "mark").read_text())


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_lives_after_a_program_that_ended(host: Host, kind: str) -> None:
    done, pid = stubborn(host, kind)
    assert done.ending == (0, None, None)
    assert done.ended["clean"] is True
    assert not alive(pid)
    assert host.run("echo", "next").stdout == b"next\n"


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_lives_after_a_program_that_was_stopped(host: Host, kind: str) -> None:
    done, pid = stubborn(host, kind, "\ntime.sleep(60)", wall=1.0)
    assert done.ending == (None, 9, "wall_time")
    assert not alive(pid)
    assert host.run("echo", "next").stdout == b"next\n"


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_lives_beside_another_run(host: Host, kind: str) -> None:
    other = host.start("sleep", "60")
    done, pid = stubborn(host, kind, "\ntime.sleep(60)", wall=1.0)
    assert (done.ended["stopped"], done.ended["clean"]) == ("wall_time", True)
    assert not alive(pid)
    host.send(Kind.KILL, other, {"reason": "cancelled"})
    assert host.finish(other).ended["stopped"] == "cancelled"


def test_a_grandchild_that_holds_the_pipe_is_not_waited_for(host: Host) -> None:
    begun = time.monotonic()
    done = host.shell("echo early; (setsid sleep 60 &)")
    assert (done.stdout, done.ending) == (b"early\n", (0, None, None))
    assert time.monotonic() - begun < 5


@pytest.mark.root
def test_a_fork_bomb_dies(host: Host) -> None:
    text = (
        "import os,time\nend=time.time()+30\nwhile time.time()<end:\n  try: os.fork()\n  except OSError: pass"
    )
    limited = f"ulimit -u 200; exec setpriv --reuid=54321 --clear-groups /usr/bin/python3 -I -S -c '{text}'"
    done = host.shell(limited, wall=0.5)
    assert done.ended["stopped"] == "wall_time"
    assert done.ended["clean"] is True
    assert children(host.process.pid) == []


def test_a_cancel_ends_a_run(host: Host) -> None:
    ref = host.start("sleep", "60")
    host.send(Kind.KILL, ref, {"reason": "cancelled"})
    assert host.finish(ref).ending == (None, 9, "cancelled")
    assert host.run("true").ending == (0, None, None)


def test_a_run_ends_once(host: Host) -> None:
    ref = host.start("true")
    for _ in range(3):
        host.send(Kind.KILL, ref, {"reason": "cancelled"})
    host.finish(ref)
    last = host.ref()
    host.send(Kind.PING, last)
    assert host.next().ref == last


def test_what_was_printed_before_a_cancel_arrives(host: Host) -> None:
    ref = host.start("sh", "-c", "echo before; touch mark; exec sleep 60")
    host.wait_for("mark")
    host.send(Kind.KILL, ref, {"reason": "cancelled"})
    assert host.finish(ref).stdout == b"before\n"


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_lives_when_the_host_has_gone(host: Host, kind: str) -> None:
    mark = str(host.workspace / "mark")
    host.start(sys.executable, "-c", STUBBORN + "\ntime.sleep(60)", kind, mark, stdin="pipe")
    pid = int(host.wait_for("mark").read_text())
    assert alive(pid)
    assert host.close() == 0
    assert not alive(pid)


def test_a_host_that_goes_is_noticed_behind_unread_input(host: Host) -> None:
    ref = host.start("sleep", "60", stdin="pipe")
    for _ in range(4):
        host.send(Kind.STDIN, ref, b"x" * 262_144)
    assert host.close() == 0


def test_a_host_that_goes_is_noticed_behind_unread_output(host: Host) -> None:
    host.start("cat", "/dev/zero", stream=True)
    time.sleep(0.1)
    assert host.close() == 0


def test_a_signal_to_a_runner_that_is_not_pid_1_ends_it_and_all(host: Host) -> None:
    mark = str(host.workspace / "mark")
    host.start(sys.executable, "-c", STUBBORN + "\ntime.sleep(60)", "daemon", mark)
    pid = int(host.wait_for("mark").read_text())
    host.process.terminate()
    assert host.process.wait(10) == 0
    assert not alive(pid)


def test_the_dead_are_buried_while_a_run_goes_on(host: Host) -> None:
    text = "for i in $(seq 50); do (setsid sh -c 'sleep 0.01' &); done; touch mark; exec sleep 60"
    ref = host.start("sh", "-c", text)
    host.wait_for("mark")
    deadline = time.monotonic() + 5
    while len(children(host.process.pid)) > 1:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    host.send(Kind.KILL, ref, {"reason": "cancelled"})
    host.finish(ref)


def test_runs_at_once_do_not_kill_each_other(host: Host) -> None:
    slow = host.start("sh", "-c", "sleep 60 & (sleep 61 &) ; touch mark; read x; echo alive", stdin="pipe")
    host.wait_for("mark")
    (host.workspace / "mark").unlink()
    done, pid = stubborn(host, "daemon")
    assert done.ended["clean"] is True
    assert not alive(pid)
    sleepers = [line for line in host.programs() if line.startswith("sleep")]
    assert len(sleepers) == 2, "the other run has kept its processes"
    host.send(Kind.STDIN, slow, b"\n")
    other = host.finish(slow)
    assert (other.stdout, other.ending) == (b"alive\n", (0, None, None))
    assert children(host.process.pid) == []


def test_many_runs_at_once_each_tell_their_own(host: Host) -> None:
    refs = {host.start("sh", "-c", f"sleep 0.{n}; echo {n}; exit {n}"): n for n in range(1, 8)}
    for ref, n in refs.items():
        done = host.finish(ref)
        assert (done.stdout, done.ending) == (f"{n}\n".encode(), (n, None, None))


def test_processes_that_are_not_its_own_are_left_alone(host: Host) -> None:
    bystander = os.fork()
    if not bystander:
        time.sleep(60)
        os._exit(0)
    try:
        stubborn(host, "daemon")
        assert alive(bystander)
    finally:
        os.kill(bystander, signal.SIGKILL)
        os.waitpid(bystander, 0)


def test_a_program_that_closes_its_output_is_not_over(host: Host) -> None:
    done = host.shell("exec >&- 2>&-; touch mark; sleep 0.3; exit 3")
    assert done.ending == (3, None, None)
    assert done.ended["wall"] > 0.3


def test_what_comes_on_one_output_after_the_end_of_the_other_arrives(host: Host) -> None:
    done = host.shell("exec >&-; sleep 0.1; echo late >&2; sleep 0.1; echo later >&2")
    assert (done.stdout, done.stderr, done.ending) == (b"", b"late\nlater\n", (0, None, None))


def test_runs_that_begin_and_end_in_one_turn_leave_nothing(host: Host) -> None:
    """A look that found no process says nothing of one that is started just behind it."""
    for _ in range(20):
        refs = [
            host.start("true"),
            host.start("sh", "-c", "(sleep 60 >/dev/null 2>&1 &)"),
            host.start("true"),
            host.start("sh", "-c", "setsid sleep 61 >/dev/null 2>&1 &"),
        ]
        ends = [host.finish(ref) for ref in refs]
        assert [(done.ending, done.ended["clean"]) for done in ends] == [((0, None, None), True)] * len(refs)
        assert host.programs() == []
