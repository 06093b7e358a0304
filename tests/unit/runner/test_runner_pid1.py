"""The runner as pid 1 of a namespace, as it is in a box."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.engines.wire import Kind

if TYPE_CHECKING:
    from tests.unit.runner.conftest import Host, StartHost

pytestmark = pytest.mark.root

LEAVE = {
    "background": "sleep 61 & true",
    "daemon": "(setsid sleep 61 >/dev/null 2>&1 </dev/null &)",
    "deaf": "(setsid sh -c 'trap \"\" TERM INT HUP; sleep 61; sleep 61' &) ; sleep 0.1",
    "stopped": "setsid sleep 61 & kill -STOP $!",
    "many": "for i in $(seq 60); do (setsid sleep 61 &); done",
}


@pytest.fixture
def init(start_host: StartHost) -> Host:
    """A runner that is pid 1."""
    host = start_host(
        prefix=["unshare", "--pid", "--ipc", "--fork", "--mount-proc", "--kill-child"], hello=False
    )
    hello = host.next()
    assert hello.kind is Kind.HELLO
    assert hello.json()["pid"] == 1
    return host


def others(host: Host) -> list[str]:
    """Returns the names of all processes of the box but the runner and the one that looks."""
    text = "for p in /proc/[0-9]*; do read -r x n rest < $p/stat && echo $p $n; done 2>/dev/null"
    lines = host.run("bash", "-c", text).stdout.decode().split("\n")
    return [line for line in lines if line and not line.startswith("/proc/1 ") and "(bash)" not in line]


@pytest.mark.parametrize("text", LEAVE.values(), ids=LEAVE)
def test_nothing_lives_after_a_run(init: Host, text: str) -> None:
    done = init.shell(text)
    assert done.ending == (0, None, None)
    assert done.ended["clean"] is True
    assert others(init) == []


@pytest.mark.parametrize("text", LEAVE.values(), ids=LEAVE)
def test_nothing_lives_after_a_run_that_was_stopped(init: Host, text: str) -> None:
    done = init.shell(f"{text}; sleep 60", wall=0.6)
    assert done.ending == (None, 9, "wall_time")
    assert done.ended["clean"] is True
    assert others(init) == []


FORK_BOMB = "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass"
LIMITED = f"ulimit -u 200; exec setpriv --reuid=54322 --clear-groups /usr/bin/python3 -I -S -c '{FORK_BOMB}'"


def test_a_fork_bomb_dies(init: Host) -> None:
    done = init.shell(LIMITED, wall=0.5)
    assert (done.ended["stopped"], done.ended["clean"]) == ("wall_time", True)
    assert others(init) == []


def test_a_fork_bomb_beside_another_run_dies_alone(init: Host) -> None:
    other = init.start("sh", "-c", "read x; echo alive", stdin="pipe")
    done = init.shell(LIMITED, wall=0.5)
    assert (done.ended["stopped"], done.ended["clean"]) == ("wall_time", True)
    assert len(others(init)) == 1
    init.send(Kind.STDIN, other, b"\n")
    assert init.finish(other).stdout == b"alive\n"


def test_signals_from_inside_do_nothing(init: Host) -> None:
    done = init.shell("for s in TERM INT KILL STOP HUP USR1 SEGV; do kill -$s 1; done; echo done")
    assert done.stdout == b"done\n"
    assert init.run("true").ending == (0, None, None)


def test_killing_everything_kills_only_itself(init: Host) -> None:
    assert init.shell("kill -9 -1; exit 3").ending[2] is None
    assert init.run("echo", "next").stdout == b"next\n"


def test_runs_at_once_do_not_kill_each_other(init: Host) -> None:
    slow = init.start("sh", "-c", "sleep 60 & touch mark; read x; kill -0 $! && echo both", stdin="pipe")
    init.wait_for("mark")
    assert init.shell(LEAVE["daemon"]).ended["clean"] is True
    init.send(Kind.STDIN, slow, b"\n")
    assert init.finish(slow).stdout == b"both\n"
    assert others(init) == []


def test_the_dead_are_buried(init: Host) -> None:
    look = "while grep -qs '^State:.Z' /proc/[0-9]*/status; do sleep 0.05; done"
    assert init.shell(f"for i in $(seq 40); do (setsid true &); done; {look}").ending == (0, None, None)


def test_memory_and_cpu_of_orphans_count(init: Host) -> None:
    spin = '/usr/bin/python3 -c \'import time\nwhile time.process_time() < 0.3: pass\nopen("spun", "w")\''
    assert init.shell(f"(setsid {spin} &); until test -e spun; do sleep 0.05; done").ended["cpu"] >= 0.3


def test_when_the_host_goes_the_box_goes(init: Host) -> None:
    init.start("sh", "-c", "(setsid sleep 61 &); touch mark; sleep 60")
    init.wait_for("mark")
    namespace = Path(f"/proc/{init.process.pid}/task/{init.process.pid}/children").read_text().split()
    assert init.close() == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in namespace)


SHARE = "ipcmk -M 4096 -p 0 && ipcmk -Q -p 0 && ipcmk -S 3 -p 0"
"""Objects of each kind that nobody may look at, not even who made them."""


def shared(host: Host) -> int:
    """Returns how many System V objects the box has."""
    count = "tail -qn +2 /proc/sysvipc/shm /proc/sysvipc/msg /proc/sysvipc/sem | wc -l"
    return int(host.shell(count).stdout)


def test_system_v_objects_do_not_outlive_a_run(init: Host) -> None:
    assert init.shell(f"{SHARE} && {SHARE}").ending == (0, None, None)
    assert shared(init) == 0


def test_system_v_objects_stay_while_a_run_lives_that_may_have_made_them(init: Host) -> None:
    other = init.start("sh", "-c", f"{SHARE}; touch mark; read x", stdin="pipe")
    init.wait_for("mark")
    init.shell(SHARE)
    assert shared(init) == 6
    init.send(Kind.STDIN, other, b"\n")
    init.finish(other)
    assert shared(init) == 0


def test_killing_is_quick(init: Host) -> None:
    begun = time.monotonic()
    for _ in range(10):
        init.shell(LEAVE["many"])
    assert time.monotonic() - begun < 10
