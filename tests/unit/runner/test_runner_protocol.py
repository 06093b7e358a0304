from __future__ import annotations

import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandbox_skills.engines import wire
from sandbox_skills.engines.wire import Kind
from sandbox_skills.spec import WORKSPACE
from sandbox_skills.workspace.layout import DIRECTORIES

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from tests.unit.runner.conftest import Host, StartHost

PROTOCOL_EXIT = 3


def test_both_sides_spell_the_same_protocol(runner_module: ModuleType) -> None:
    kinds = {name: number for name, number in vars(runner_module.Kind).items() if name.isupper()}
    assert kinds == {kind.name: kind.value for kind in Kind}
    assert [WORKSPACE / path for path in runner_module.DIRECTORIES] == list(DIRECTORIES)
    for name in ("PROTOCOL", "MAX_DATA", "MAX_JSON", "INITIAL_CREDIT", "STDIN_WINDOW"):
        assert getattr(runner_module, name) == getattr(wire, name)
    assert runner_module.HEADER.format == wire.HEADER.format
    assert set(runner_module.RAW) == set(wire.RAW)
    assert set(runner_module.ERRNO_CODES.values()) <= wire.ERROR_CODES


def test_hello_comes_first_and_says_what_this_box_is(start_host: StartHost) -> None:
    host = start_host(hello=False)
    frame = host.next()
    assert (frame.kind, frame.ref) == (Kind.HELLO, 0)
    hello = frame.json()
    assert (hello["protocol"], hello["runner"], hello["pid"]) == (wire.PROTOCOL, "1", host.process.pid)
    assert hello["python"] == ".".join(map(str, sys.version_info[:3]))
    facts = hello["facts"]
    assert facts["dumpable"] == 0
    assert "lo" in facts["interfaces"]
    assert set(facts["caps"]) == {"inh", "prm", "eff", "bnd", "amb"}
    assert set(facts["mounts"]) == {"/", str(host.workspace), str(host.skills), "/tmp", "/dev/shm"}
    assert set(facts["mounts"]["/"]) == {"fstype", "options", "size", "inodes"}
    assert set(facts["cgroup"]) == {"memory", "pids", "cpu_quota", "cpu_period"}
    assert all(len(pair) == 2 for pair in facts["rlimits"].values())


def test_the_workspace_has_its_directories(host: Host) -> None:
    for name in ("work/inputs", "runs", "out", "skills", "home"):
        assert (host.workspace / name).is_dir()


def test_ping_is_answered(host: Host) -> None:
    ref = host.ref()
    host.send(Kind.PING, ref)
    assert host.next(ref).kind is Kind.PONG


def test_hanging_up_ends_it_with_0(host: Host) -> None:
    assert host.close() == 0


@pytest.mark.parametrize(
    "frame",
    [
        wire.HEADER.pack(0, 1, 0),
        wire.HEADER.pack(16, 1, 0),
        wire.HEADER.pack(Kind.HELLO, 1, 0),
        wire.HEADER.pack(255, 1, 0),
        wire.HEADER.pack(Kind.STDIN, 1, wire.MAX_DATA + 1),
        wire.HEADER.pack(Kind.RUN, 1, wire.MAX_JSON + 1),
    ],
)
def test_what_is_no_frame_ends_it_with_3(host: Host, frame: bytes) -> None:
    host.channel.sendall(frame)
    assert host.process.wait(10) == PROTOCOL_EXIT


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (Kind.RUN, b"{"),
        (Kind.RUN, b"[]"),
        (Kind.RUN, b"[" * 100_000),
        (Kind.RUN, b"{}"),
        (Kind.RUN, b'{"argv":[]}'),
        (Kind.PREPARE, b'{"dirs":[1],"links":[]}'),
        (Kind.PREPARE, b'{"dirs":[],"links":["ab"]}'),
        (Kind.PREPARE, b'{"dirs":[],"links":[["a"]]}'),
        (Kind.PUT, b'{"path":"a","mode":true}'),
        (Kind.PUT, b'{"path":"a\\u0000b","mode":420}'),
        (Kind.PUT, b'{"path":"\\ud800","mode":420}'),
        (Kind.GET, b'{"path":"a","max_bytes":-1}'),
        (Kind.COLLECT, b'{"patterns":["[z-a]"],"files":1,"file_bytes":1,"total_bytes":1}'),
        (Kind.COLLECT, b'{"patterns":[""],"files":1,"file_bytes":1,"total_bytes":1}'),
        (Kind.CREDIT, b'{"bytes":"x"}'),
        (Kind.FACTS, b'{"marker":1}'),
    ],
)
def test_a_bad_payload_is_refused_and_the_runner_goes_on(host: Host, kind: Kind, payload: bytes) -> None:
    with pytest.raises(Exception, match="bad_request"):
        host.ask(kind, payload)
    assert host.run("true").ending == (0, None, None)


def order_with(workspace: Path, **changes: object) -> dict[str, Any]:
    order: dict[str, Any] = {
        "argv": ["true"],
        "env": {},
        "cwd": str(workspace),
        "stdin": "none",
        "stream": False,
        "limits": {"wall": 1, "cpu": None, "stdout": 1, "stderr": 1, "output": 1},
    }
    return {**order, **changes}


@pytest.mark.parametrize(
    "changes",
    [
        {"argv": "true"},
        {"argv": [""]},
        {"argv": ["a\0b"]},
        {"env": {"A=B": "c"}},
        {"env": {"": "c"}},
        {"env": {"A": 1}},
        {"stdin": "file"},
        {"tty": True},
        {"tty": {"rows": 24, "cols": 80}},
        {"stdin": "pipe", "tty": {"rows": 0, "cols": 80}},
        {"stdin": "pipe", "tty": {"rows": 24, "cols": 1001}},
        {"stdin": "pipe", "tty": {"rows": 24}},
        {"stream": 1},
        {"limits": {}},
        {"limits": {"wall": -1, "cpu": None, "stdout": 1, "stderr": 1, "output": 1}},
        {"limits": {"wall": 1e999, "cpu": None, "stdout": 1, "stderr": 1, "output": 1}},
        {"limits": {"wall": 1, "cpu": None, "stdout": 1.5, "stderr": 1, "output": 1}},
    ],
)
def test_a_run_that_cannot_be_one_is_refused(host: Host, changes: dict[str, object]) -> None:
    with pytest.raises(Exception, match="bad_request"):
        host.ask(Kind.RUN, order_with(host.workspace, **changes))


def test_a_ref_in_use_is_refused(host: Host) -> None:
    ref = host.start("sleep", "10")
    for kind, payload in ((Kind.RUN, order_with(host.workspace)), (Kind.PUT, {"path": "a", "mode": 0o644})):
        host.send(kind, ref, payload)
        with pytest.raises(Exception, match="bad_request"):
            host.next(ref)
    host.send(Kind.KILL, ref, {"reason": "cancelled"})
    assert host.finish(ref).ending == (None, 9, "cancelled")


@pytest.mark.parametrize(
    "kind",
    [
        Kind.STDIN,
        Kind.CLOSE_STDIN,
        Kind.KILL,
        Kind.CHUNK,
        Kind.CHUNKS_END,
        Kind.CREDIT,
        Kind.RESIZE,
        Kind.SIGNAL,
    ],
)
def test_frames_of_a_request_that_is_over_are_ignored(host: Host, kind: Kind) -> None:
    host.send(kind, 77, b'{"bytes":1}')
    ref = host.ref()
    host.send(Kind.PING, ref)
    assert host.next().ref == ref


def test_frames_may_come_in_any_pieces(host: Host) -> None:
    ref = host.ref()
    for byte in wire.encode(Kind.RUN, ref, order_with(host.workspace)):
        host.channel.sendall(bytes([byte]))
    assert host.finish(ref).ending == (0, None, None)


FRAMES = st.builds(
    wire.encode,
    st.sampled_from([kind for kind in Kind if kind < Kind.HELLO and kind is not Kind.FACTS]),
    st.integers(0, 3),
    st.binary(max_size=40) | st.sampled_from([b"{}", b"[]", b'{"path":"a","mode":1,"max_bytes":9}']),
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(FRAMES | st.binary(max_size=30), max_size=8))
def test_no_bytes_make_it_hang(start_host: StartHost, tmp_path: Path, pieces: list[bytes]) -> None:
    host = start_host(tmp_path / "any")
    try:
        for piece in pieces:
            host.channel.sendall(piece)
        host.channel.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # it has ended already
    assert host.process.wait(10) in {0, PROTOCOL_EXIT}


@pytest.mark.parametrize("arguments", [["--workspace"], ["--colour", "red"]])
def test_an_option_it_does_not_have_ends_it_at_once(runner_module: ModuleType, arguments: list[str]) -> None:
    argv = [sys.executable, "-I", "-S", "-B", cast("str", runner_module.__file__), *arguments]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(b"runner: ")
