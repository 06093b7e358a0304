from __future__ import annotations

import json
import os
import re
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.engines.globs import Glob
from sandbox_skills.engines.wire import INITIAL_CREDIT, Kind, encode
from sandbox_skills.errors import PatternError

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from tests.unit.runner.conftest import Host

KIB = 1024
MIB = 1024 * KIB


def make(host: Host, *paths: str) -> None:
    """Makes files that contain their own names."""
    for path in paths:
        file = host.workspace / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(path)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("out/**", ["out/.hidden", "out/a.txt", "out/b.csv", "out/deep/c.txt", "out/deep/er/d.txt"]),
        ("out/*", ["out/.hidden", "out/a.txt", "out/b.csv"]),
        ("out/a.txt", ["out/a.txt"]),
        ("out/?.txt", ["out/a.txt"]),
        ("out/[ab].*", ["out/a.txt", "out/b.csv"]),
        ("out/[!a].*", ["out/b.csv"]),
        ("**/*.txt", ["out/a.txt", "out/deep/c.txt", "out/deep/er/d.txt", "top.txt"]),
        ("**/deep/**/*.txt", ["out/deep/c.txt", "out/deep/er/d.txt"]),
        ("*.txt", ["top.txt"]),
        ("out", []),
        ("out/deep", []),
        ("out/a.txt/**", []),
        ("gone/**", []),
        ("./out//a.txt", ["out/a.txt"]),
    ],
)
def test_a_pattern_finds(host: Host, pattern: str, found: list[str]) -> None:
    make(host, "top.txt", "out/a.txt", "out/b.csv", "out/.hidden", "out/deep/c.txt", "out/deep/er/d.txt")
    collected = host.collect(pattern)
    assert list(collected.files) == found
    assert collected.contents == {path: path.encode() for path in found}
    assert collected.end == {"files": len(found), "limits_hit": [], "skipped": {}}


def test_no_file_comes_twice_and_all_are_sorted_by_bytes(host: Host) -> None:
    make(host, "out/b", "out/a", "out/ä", "out/a/b".replace("a/", "aa/"), "out/Z", "out/\U0001f600")
    paths = list(host.collect("out/*", "out/**", "**", "out/a").files)
    assert paths == sorted(paths, key=lambda path: path.encode())
    assert len(paths) == 6


def test_small_and_large_files_of_many_folders_come_whole(host: Host) -> None:
    sizes = [0, 1, 4096, 64 * KIB, 0, 64 * KIB + 1, 5, 300 * KIB, 0]
    wanted = {
        f"out/{folder}/{number:03}": os.urandom(sizes[number % len(sizes)])
        for folder in ("a", "a/b", "a/b/c", "z")
        for number in range(150)
    }
    for path, content in wanted.items():
        (host.workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (host.workspace / path).write_bytes(content)
    before = host.descriptors()
    collected = host.collect("out/**")
    assert collected.contents == wanted
    assert list(collected.files) == sorted(wanted, key=str.encode)
    assert host.descriptors() == before


def test_long_names_in_one_batch_stay_below_the_longest_reply(host: Host) -> None:
    folder = "out/" + "/".join(["ä" * 120] * 15)
    make(host, *(f"{folder}/{number:03}" for number in range(100)))
    assert len(host.collect("out/**").files) == 100


def test_size_and_mode_are_told(host: Host) -> None:
    make(host, "out/file")
    (host.workspace / "out/file").chmod(0o4750)
    head, _ = host.collect("out/*").files["out/file"]
    assert head == {"path": "out/file", "size": 8, "mode": 0o750, "take": 8}


def test_links_and_special_files_are_left_and_said(host: Host) -> None:
    make(host, "out/real", "outside/secret")
    out = host.workspace / "out"
    (out / "link").symlink_to("real")
    (out / "passwd").symlink_to("/etc/passwd")
    (out / "dir").symlink_to(host.workspace / "outside")
    (out / "loop").symlink_to(".")
    os.mkfifo(out / "fifo")
    collected = host.collect("out/**")
    assert list(collected.files) == ["out/real"]
    links = dict.fromkeys(("out/link", "out/passwd", "out/dir", "out/loop"), "link")
    assert collected.end["skipped"] == {**links, "out/fifo": "special"}
    assert host.collect("out/dir/*").files == {}


def test_a_name_that_is_no_text_is_left_and_said(host: Host) -> None:
    (host.workspace / "out" / os.fsdecode(b"bad\xff")).write_text("x")
    assert host.collect("out/**").end["skipped"] == {"out/bad\\xff": "name"}


@pytest.mark.parametrize("pattern", ["../*", "/etc/*", "out/../../*", "**/.."])
def test_a_pattern_cannot_leave_the_workspace(host: Host, pattern: str) -> None:
    with pytest.raises(Exception, match="not_permitted"):
        host.collect(pattern)


def test_only_so_many_files_are_taken(host: Host) -> None:
    make(host, "out/a", "out/b", "out/c")
    collected = host.collect("out/*", files=2)
    assert list(collected.files) == ["out/a", "out/b"]
    end = {"files": 2, "limits_hit": ["collected_files"], "skipped": {"out/c": "collected_files"}}
    assert collected.end == end


def test_a_long_file_is_cut(host: Host) -> None:
    make(host, "out/long")
    collected = host.collect("out/*", file_bytes=3)
    assert collected.files["out/long"] == ({"path": "out/long", "size": 8, "mode": 0o644, "take": 3}, b"out")


def test_what_does_not_fit_in_all_is_left_and_said(host: Host) -> None:
    (host.workspace / "out/a").write_bytes(bytes(6))
    (host.workspace / "out/b").write_bytes(bytes(6))
    (host.workspace / "out/c").write_bytes(bytes(4))
    collected = host.collect("out/*", total_bytes=10)
    assert list(collected.files) == ["out/a", "out/c"]
    assert collected.end["limits_hit"] == ["collected_bytes"]
    assert collected.end["skipped"] == {"out/b": "collected_bytes"}


def test_a_sparse_file_is_bounded_like_any_other(host: Host) -> None:
    with (host.workspace / "out/sparse").open("wb") as file:
        file.truncate(1 << 40)
    head, data = host.collect("out/*", file_bytes=MIB).files["out/sparse"]
    assert (head["size"], head["take"], data) == (1 << 40, MIB, bytes(MIB))


def test_the_list_of_what_was_skipped_is_bounded(host: Host) -> None:
    for number in range(300):
        (host.workspace / "out" / f"{number:0200}").symlink_to("x")
    assert len(host.collect("out/*").end["skipped"]) == 100
    deep = "/".join(["\x01" * 250] * 8)
    make(host, *(f"work/{deep}/{number}" for number in range(40)))
    collected = host.collect("work/**", files=0)
    assert 0 < len(collected.end["skipped"]) <= 40


def test_a_deep_tree_ends_the_walk_and_is_said(host: Host) -> None:
    deep = "work/" + "/".join(["d"] * 80)
    make(host, f"{deep}/file", "work/d/near")
    collected = host.collect("**")
    assert list(collected.files) == ["work/d/near"]
    assert collected.end["limits_hit"] == ["collected_files"]


def test_a_wide_tree_ends_the_walk_and_is_said(
    runner_module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_module, "WALK_ENTRIES", 50)
    for number in range(60):
        (tmp_path / f"{number}").touch()
    caps = runner_module.Fields(b'{"files":100,"file_bytes":1,"total_bytes":1}')
    limits = runner_module.CollectLimits(caps)
    workspace = runner_module.Workspace(str(tmp_path))
    frames = list(runner_module.Collection(workspace, ["**"], limits, runner_module.Credit()).frames())
    assert json.loads(frames[-1][1]) == {"files": 50, "limits_hit": ["collected_files"], "skipped": {}}


def test_the_loop_goes_on_during_a_walk(host: Host) -> None:
    for number in range(3000):
        (host.workspace / "work" / f"{number}").touch()
    walk, ping = host.ref(), host.ref()
    body = {"patterns": ["**/none"], "files": 0, "file_bytes": 1, "total_bytes": 1}
    host.channel.sendall(encode(Kind.COLLECT, walk, body) + encode(Kind.PING, ping))
    assert host.next().ref == ping
    assert host.next().ref == walk


def test_it_needs_credit(host: Host) -> None:
    for name in ("a", "b"):
        (host.workspace / "out" / name).write_bytes(bytes(3 * MIB))
    ref = host.ref()
    body = {"patterns": ["out/*"], "files": 9, "file_bytes": 1 << 30, "total_bytes": 1 << 30}
    host.send(Kind.COLLECT, ref, body)
    got = 0
    while got < INITIAL_CREDIT:
        frame = host.next(ref)
        got += len(frame.payload) if frame.kind is Kind.DATA else 0
    assert host.silent(0.1)
    host.send(Kind.CREDIT, ref, {"bytes": 2 * MIB})
    while (frame := host.next(ref)).kind is Kind.DATA:
        got += len(frame.payload)
    assert (got, frame.json()["files"]) == (6 * MIB, 2)


def test_a_file_that_shrinks_meanwhile_ends_early(host: Host) -> None:
    path = host.workspace / "out/file"
    path.write_bytes(bytes(INITIAL_CREDIT + MIB))
    ref = host.ref()
    body = {"patterns": ["out/*"], "files": 9, "file_bytes": 1 << 30, "total_bytes": 1 << 30}
    host.send(Kind.COLLECT, ref, body)
    assert host.next(ref).json()["files"] == [["out/file", INITIAL_CREDIT + MIB, 0o644, INITIAL_CREDIT + MIB]]
    while not host.silent(0.1):
        host.next(ref)
    os.truncate(path, INITIAL_CREDIT)
    host.send(Kind.CREDIT, ref, {"bytes": MIB})
    assert host.next(ref).kind is Kind.END


def matches(module: ModuleType, pattern: str, path: str) -> bool:
    """Tells whether a path as a file would be taken."""
    states = {module.compile_pattern(pattern)}
    for name in path.split("/"):
        states = module.advance(states - {()}, name)
    return () in states


NAME = st.text("ab.[]!-*?", min_size=1, max_size=6).filter(lambda name: name not in {".", ".."})
SEGMENT = st.just("**") | st.text("ab.*?[]!-", min_size=1, max_size=8).filter(
    lambda text: text not in {".", ".."}
)


@given(st.lists(SEGMENT, min_size=1, max_size=4), st.lists(NAME, min_size=1, max_size=4))
def test_it_reads_patterns_as_the_host_does(
    runner_module: ModuleType, pattern: list[str], path: list[str]
) -> None:
    text, where = "/".join(pattern), "/".join(path)
    try:
        expected = Glob(text).matches(where)
    except PatternError:
        with pytest.raises(runner_module.Refused):
            matches(runner_module, text, where)
    else:
        assert matches(runner_module, text, where) == expected


@given(NAME)
def test_an_escaped_name_matches_itself_alone(runner_module: ModuleType, name: str) -> None:
    escaped = re.sub(r"([*?\[])", r"[\1]", name)
    assert matches(runner_module, escaped, name)
    assert not matches(runner_module, escaped, name + "x")


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("[]]", "]", True),
        ("[!]]", "]", False),
        ("[a-c]", "b", True),
        ("[a-]", "-", True),
        ("[--0]", ".", True),
        ("[^a]", "^", True),
        ("[!a", "[!a", True),
        ("[]", "[]", True),
        ("a*b*c", "aXbXbXc", True),
        ("*a*", "bab", True),
        ("a**b", "aXb", True),
        ("?", "ä", True),
        ("*", "new\nline", True),
        ("[\\d]", "d", True),
        ("[[:alpha:]]", "a", False),
    ],
)
def test_a_name_is_matched(runner_module: ModuleType, pattern: str, name: str, expected: bool) -> None:  # noqa: FBT001  # an expectation
    assert matches(runner_module, pattern, name) is expected


def test_a_hostile_pattern_takes_no_time(runner_module: ModuleType) -> None:
    begun = time.process_time()
    assert not matches(runner_module, "*a" * 60 + "*b", "a" * 255)
    assert not matches(runner_module, "/".join(["**"] * 40 + ["x"]), "/".join(["a"] * 60))
    assert time.process_time() - begun < 2
