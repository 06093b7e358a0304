"""What a program in the box can reach of the runner. Uses another uid, because root may do everything."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_skills.engines.wire import Kind

if TYPE_CHECKING:
    from tests.unit.runner.conftest import Host, StartHost

UID = 54_321
LOOK = """
import os, sys
runner = os.getppid()
for name in ("mem", "environ", "fd", "maps"):
    path = f"/proc/{runner}/{name}"
    try:
        os.listdir(path) if name == "fd" else open(path, "rb").read(1)
        print(name, "open")
    except OSError as error:
        print(name, "closed")
"""


def test_a_program_gets_its_three_descriptors_and_no_more(host: Host) -> None:
    done = host.run("ls", "-l", "/proc/self/fd", stdin=b"")
    opened = [line.split()[8:] for line in done.stdout.decode().splitlines()[1:]]
    ours = {number: where for number, _, where in opened if not where.startswith("/proc/")}
    assert set(ours) == {"0", "1", "2"}
    assert all(where.startswith("pipe:") for where in ours.values())


def test_without_input_a_program_reads_from_nothing(host: Host) -> None:
    assert host.run("readlink", "/proc/self/fd/0").stdout == b"/dev/null\n"


@pytest.fixture
def other(start_host: StartHost) -> Host:
    """A runner with the uid of nobody in particular."""
    return start_host(user=UID)


@pytest.mark.root
def test_a_program_of_the_same_uid_cannot_look_into_the_runner(other: Host) -> None:
    done = other.run("/usr/bin/python3", "-I", "-S", "-c", LOOK)
    assert done.stdout.split(b"\n")[:4] == [b"mem closed", b"environ closed", b"fd closed", b"maps closed"]


@pytest.mark.root
def test_the_facts_of_another_uid_are_told(start_host: StartHost) -> None:
    host = start_host(user=UID, hello=False)
    facts = host.next().json()["facts"]
    assert (facts["uid"], facts["gid"], facts["groups"], facts["dumpable"]) == (UID, UID, [], 0)
    assert facts["caps"]["eff"] == 0


def probe(host: Host, marker: str | None) -> dict[str, Any]:
    return host.ask(Kind.FACTS, {"marker": marker})


@pytest.mark.root
def test_the_probe_tells_what_was_refused_and_what_works(other: Host) -> None:
    (other.skills / "marker").write_text("here")
    found = probe(other, "marker")
    assert found["loopback"] == "ok"
    assert "127.0.0.1" in found["localhost"]
    assert found["marker"] == hashlib.sha256(b"here").hexdigest()
    assert set(found["interpreters"]) == {"python3", "node", "bash"}
    assert found["interpreters"]["bash"][0].isdigit()
    assert found["passwd_name"] is None
    for name in ("read_pid1_mem", "ptrace_pid1", "setuid0", "mount", "write_root"):
        assert found[name] in {"EPERM", "EACCES", "EROFS"}, name
    for name in ("outside_v4", "outside_v6", "io_uring", "keyctl", "bpf", "userfaultfd", "unshare_user"):
        assert found[name] == "ok" or found[name].startswith("E"), name
    assert other.run("true").ending == (0, None, None)


@pytest.mark.root
@pytest.mark.parametrize("marker", ["gone", "../secret", "/etc/passwd", None])
def test_a_marker_that_is_not_there_is_null(other: Host, marker: str | None) -> None:
    assert probe(other, marker)["marker"] is None


@pytest.mark.root
def test_a_run_beside_the_probe_does_not_end_it(other: Host) -> None:
    ref = other.ref()
    other.send(Kind.FACTS, ref, {"marker": None})
    assert other.run("true").ending == (0, None, None)
    assert other.next(ref).kind is Kind.FACTS_REPLY


def test_the_runner_writes_nothing_to_the_workspace_but_its_directories(host: Host) -> None:
    assert sorted(path.name for path in host.workspace.iterdir()) == ["home", "out", "runs", "skills", "work"]
