from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.engines.wire import INITIAL_CREDIT, Kind, encode

if TYPE_CHECKING:
    from tests.unit.runner.conftest import Host, StartHost

MIB = 1024 * 1024

ESCAPES = ["/etc/passwd", "../outside", "work/../../outside", "..", "out-link/file", "file-link"]


@pytest.fixture
def outside(host: Host) -> Path:
    """A directory beside the workspace that links inside it lead to."""
    outside = host.workspace.parent / "outside"
    outside.mkdir()
    (outside / "file").write_text("secret")
    (host.workspace / "out-link").symlink_to(outside)
    (host.workspace / "file-link").symlink_to(outside / "file")
    return outside


@pytest.mark.parametrize("size", [0, 1, 100_000, 3 * MIB + 1])
def test_a_file_goes_in_and_out(host: Host, size: int) -> None:
    data = os.urandom(size)
    assert host.put("work/deep/er/file", data) == size
    assert (host.workspace / "work/deep/er/file").read_bytes() == data
    assert host.get("work/deep/er/file") == (data, {"size": size, "truncated": False})


def test_the_mode_is_applied_without_special_bits(host: Host) -> None:
    host.put("script", b"#!/bin/sh\necho ran", mode=0o4755)
    assert (host.workspace / "script").stat().st_mode & 0o7777 == 0o755
    assert host.run("./script").stdout == b"ran\n"


def test_a_file_is_replaced_in_one_step(host: Host) -> None:
    host.put("file", b"old")
    held = (host.workspace / "file").open("rb")
    host.put("file", b"new")
    with held:
        assert held.read() == b"old"
    assert host.get("file")[0] == b"new"


def test_a_half_file_is_not_there_and_leaves_nothing(host: Host) -> None:
    ref = host.ref()
    host.send(Kind.PUT, ref, {"path": "out/file", "mode": 0o644})
    host.send(Kind.CHUNK, ref, b"half")
    host.ask(Kind.PREPARE, {"dirs": [], "links": []})
    assert not (host.workspace / "out/file").exists()
    assert host.close() == 0
    assert list((host.workspace / "out").iterdir()) == []


def test_a_cancelled_put_leaves_nothing(host: Host) -> None:
    ref = host.ref()
    host.send(Kind.PUT, ref, {"path": "out/file", "mode": 0o644})
    host.send(Kind.CHUNK, ref, b"half")
    host.send(Kind.KILL, ref, {"reason": "cancelled"})
    with pytest.raises(Exception, match="cancelled"):
        host.next(ref)
    assert list((host.workspace / "out").iterdir()) == []


@pytest.mark.parametrize("path", ESCAPES)
def test_no_request_leaves_the_workspace(host: Host, outside: Path, path: str) -> None:
    with pytest.raises(Exception, match="not_permitted"):
        host.get(path)
    if path != "file-link":  # a put replaces the link itself
        with pytest.raises(Exception, match="not_permitted"):
            host.put(path, b"x")
    with pytest.raises(Exception, match=r"not_permitted|not_a_directory"):
        host.ask(Kind.PREPARE, {"dirs": [path], "links": []})
    assert [entry.name for entry in outside.iterdir()] == ["file"]
    assert (outside / "file").read_text() == "secret"


def test_a_put_replaces_a_link_and_not_its_target(host: Host, outside: Path) -> None:
    host.put("file-link", b"mine")
    assert (outside / "file").read_text() == "secret"
    assert (host.workspace / "file-link").read_bytes() == b"mine"
    assert not (host.workspace / "file-link").is_symlink()


@pytest.mark.parametrize(
    ("path", "code"), [("gone", "not_found"), ("work", "not_a_file"), ("", "bad_request")]
)
def test_what_is_no_file_cannot_be_got(host: Host, path: str, code: str) -> None:
    with pytest.raises(Exception, match=code):
        host.get(path)


def test_special_files_are_refused_without_waiting(host: Host) -> None:
    os.mkfifo(host.workspace / "fifo")
    place = os.open(host.workspace, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"/proc/self/fd/{place}/socket")  # a socket's path may have 107 bytes
    for name in ("fifo", "socket"):
        with pytest.raises(Exception, match="not_a_file"):
            host.get(name)
    os.close(place)


def test_a_file_in_the_way_of_a_directory_is_told(host: Host) -> None:
    host.put("plain", b"")
    for path in ("plain/below", "plain/below/deep"):
        with pytest.raises(Exception, match="not_a_directory"):
            host.put(path, b"x")
    with pytest.raises(Exception, match="not_a_file"):
        host.put("work", b"x")
    assert sorted(entry.name for entry in host.workspace.iterdir() if "put" in entry.name) == []


def test_a_get_is_cut_where_it_was_asked(host: Host) -> None:
    host.put("file", b"0123456789")
    assert host.get("file", max_bytes=4) == (b"0123", {"size": 10, "truncated": True})
    assert host.get("file", max_bytes=10) == (b"0123456789", {"size": 10, "truncated": False})
    assert host.get("file", max_bytes=0) == (b"", {"size": 10, "truncated": True})


def test_directories_and_links_are_prepared(host: Host) -> None:
    links = [["skills/demo", "/skills/abc"], ["a/b/link", "../target"]]
    for _ in range(2):
        host.ask(Kind.PREPARE, {"dirs": ["runs/1/x", "out"], "links": links})
    assert (host.workspace / "runs/1/x").is_dir()
    assert str((host.workspace / "skills/demo").readlink()) == "/skills/abc"
    assert str((host.workspace / "a/b/link").readlink()) == "../target"


def test_a_link_replaces_a_link_and_nothing_else(host: Host) -> None:
    (host.workspace / "link").symlink_to("old")
    (host.workspace / "taken").write_text("mine")
    host.ask(Kind.PREPARE, {"dirs": [], "links": [["link", "new"], ["taken", "new"]]})
    assert str((host.workspace / "link").readlink()) == "new"
    assert (host.workspace / "taken").read_text() == "mine"


def test_without_credit_no_more_is_sent_and_others_are_answered(host: Host) -> None:
    host.put("big", bytes(INITIAL_CREDIT + MIB))
    ref = host.ref()
    host.send(Kind.GET, ref, {"path": "big", "max_bytes": 1 << 40})
    got = 0
    while got < INITIAL_CREDIT:
        got += len(host.next(ref).payload)
    assert got == INITIAL_CREDIT
    assert host.silent(0.1)
    assert host.run("true").ending == (0, None, None)
    host.send(Kind.CREDIT, ref, {"bytes": MIB})
    while (frame := host.next(ref)).kind is Kind.DATA:
        got += len(frame.payload)
    assert (got, frame.json()) == (INITIAL_CREDIT + MIB, {"size": got, "truncated": False})


def read_all(host: Host, ref: int) -> None:
    while host.next(ref).kind is Kind.DATA:
        pass


def test_a_file_of_exactly_the_credit_needs_no_more(host: Host) -> None:
    host.put("file", bytes(INITIAL_CREDIT))
    ref = host.ref()
    host.send(Kind.GET, ref, {"path": "file", "max_bytes": INITIAL_CREDIT})
    read_all(host, ref)


def test_a_cancelled_get_ends(host: Host) -> None:
    host.put("big", bytes(INITIAL_CREDIT + MIB))
    ref = host.ref()
    host.send(Kind.GET, ref, {"path": "big", "max_bytes": 1 << 40})
    host.send(Kind.KILL, ref, {"reason": "cancelled"})
    with pytest.raises(Exception, match="cancelled"):
        read_all(host, ref)


def test_a_host_that_does_not_read_is_not_served_from_memory(host: Host) -> None:
    host.put("big", bytes(INITIAL_CREDIT))
    for _ in range(8):
        host.channel.sendall(encode(Kind.GET, host.ref(), {"path": "big", "max_bytes": 1 << 40}))
    time.sleep(0.3)
    status = Path(f"/proc/{host.process.pid}/status").read_text()
    assert int(status.split("VmHWM:")[1].split()[0]) < 30 * 1024


@pytest.mark.root
def test_a_full_workspace_is_told_and_leaves_nothing(start_host: StartHost, tmp_path: Path) -> None:
    place = tmp_path / "small"
    place.mkdir()
    script = f'mount -t tmpfs -o size=1m,nr_inodes=20 tmpfs {place} && exec "$@"'
    host = start_host(place, prefix=["unshare", "--mount", "sh", "-c", script, "sh"])
    with pytest.raises(Exception, match="no_space"):
        host.put("work/big", bytes(2 * MIB))
    assert host.shell("ls -A work").stdout == b".venv\ninputs\n"
    assert host.shell("cat /dev/zero > fill").ended["disk_full"] is True
    host.run("rm", "fill")
    assert host.run("true").ended["disk_full"] is False
    done = host.shell("for i in $(seq 40); do : > $i; done")
    assert (done.ended["inodes_full"], done.ended["disk_full"]) == (True, False)
    with pytest.raises(Exception, match=r"no_space|no_inodes"):
        host.put("work/one", b"x")
