"""What can be staged, what is refused, and a digest that no two trees share."""

from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.errors import SkillUnsafeError
from sandbox_skills.workspace.paths import open_root
from sandbox_skills.workspace.skill_digest import tree_digest
from sandbox_skills.workspace.skill_tree import Entry, SkillTree, StageLimits, scan

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def skill(tmp_path: Path) -> Path:
    root = tmp_path / "skill"
    (root / "scripts").mkdir(parents=True)
    (root / "SKILL.md").write_text("---\nname: skill\n---\n")
    (root / "scripts" / "run.py").write_text("print(1)\n")
    return root


def scanned(root: Path, limits: StageLimits | None = None) -> SkillTree:
    with open_root(root) as root_fd:
        return scan(root_fd, limits or StageLimits())


def test_a_scan_lists_everything_sorted(skill: Path) -> None:
    (skill / "scripts" / "run").symlink_to("run.py")
    (skill / "scripts" / "run.py").chmod(0o700)
    (skill / "empty").mkdir()
    tree = scanned(skill)
    assert [(str(entry.path), entry.kind) for entry in tree.entries] == [
        ("SKILL.md", "file"),
        ("empty", "directory"),
        ("scripts", "directory"),
        ("scripts/run", "link"),
        ("scripts/run.py", "file"),
    ]
    assert [str(entry.path) for entry in tree.entries if entry.executable] == ["scripts/run.py"]
    assert (tree.files, tree.bytes, tree.notes) == (2, 29, ())


def test_history_and_bytecode_are_left_out_and_said(skill: Path) -> None:
    (skill / ".git").mkdir()
    (skill / ".git" / "config").touch()
    (skill / "scripts" / "__pycache__").mkdir()
    (skill / "node_modules").mkdir()
    tree = scanned(skill)
    assert tree.names == {"SKILL.md", "node_modules", "scripts"}
    assert tree.notes == ("left out: '.git', 'scripts/__pycache__'",)


def test_many_notes_of_one_kind_are_counted(skill: Path) -> None:
    for number in range(8):
        (skill / str(number) / ".git").mkdir(parents=True)
    assert scanned(skill).notes == ("left out: '0/.git', '1/.git', '2/.git', '3/.git', '4/.git' and 3 more",)


def test_special_mode_bits_are_removed_and_said(skill: Path) -> None:
    (skill / "scripts" / "run.py").chmod(0o4755)
    (skill / "scripts").chmod(0o1777)
    assert scanned(skill).notes == ("setuid, setgid or sticky bit removed: 'scripts', 'scripts/run.py'",)


@pytest.mark.parametrize("target", ["SKILL.md", "scripts/../SKILL.md", "./scripts", "scripts/run.py", "."])
def test_a_link_that_stays_inside_is_kept(skill: Path, target: str) -> None:
    (skill / "link").symlink_to(target)
    tree = scanned(skill)
    assert [entry.target for entry in tree.entries if entry.kind == "link"] == [target]
    assert tree.notes == ()


def test_a_link_to_nothing_is_kept_and_said(skill: Path) -> None:
    (skill / "link").symlink_to("none")
    assert scanned(skill).notes == ("link to nothing: 'link'",)


def links(*pairs: tuple[str, str]) -> Callable[[Path], None]:
    def make(root: Path) -> None:
        for name, target in pairs:
            (root / name).symlink_to(target)

    return make


def a_socket(root: Path) -> None:
    with open_root(root) as root_fd, socket.socket(socket.AF_UNIX) as server:
        server.bind(f"/proc/self/fd/{root_fd}/socket")  # a unix address has room for 107 bytes only


def deep(root: Path) -> None:
    (root / "/".join(["d"] * 40)).mkdir(parents=True)


def bytes_name(name: bytes) -> Callable[[Path], None]:
    return lambda root: Path(os.fsdecode(os.fsencode(root) + b"/" + name)).touch()


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "absolute link": (links(("x", "/etc/passwd")), "'x' links to '/etc/passwd': .* absolute"),
    "link out": (links(("x", "../other")), r"'x' links to '\.\./other': .* leaves its root"),
    "link out of a folder": (links(("scripts/x", "../../other")), "'scripts/x' links to"),
    "link out and back": (links(("x", "scripts/../../skill/SKILL.md")), "leaves its root"),
    "link out by another": (links(("up", "scripts/.."), ("x", "up/../y")), "'x' links to .* leaves its root"),
    "circle of links": (links(("a", "b"), ("b", "a")), "form a loop"),
    "link to itself": (links(("x", "x")), "form a loop"),
    "winding link": (links(("x", "scripts/../" * 40 + "SKILL.md")), "too many names"),
    "link with a backslash": (links(("x", "a\\b")), "backslash"),
    "FIFO": (lambda root: os.mkfifo(root / "scripts" / "pipe"), "'scripts/pipe' is a FIFO"),
    "socket": (a_socket, "'socket' is a socket"),
    "line end in a name": (bytes_name(b"new\nline"), r"'new\\nline' contains a control"),
    "name that is not UTF-8": (bytes_name(b"\xff.txt"), r"'\\udcff.txt' is not UTF-8"),
    "backslash in a name": (bytes_name(b"a\\b"), "contains a backslash"),
    "deep folders": (deep, "deeper than 32"),
}


@pytest.mark.parametrize(("make", "why"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_staged_is_refused_by_name(
    skill: Path, make: Callable[[Path], object], why: str
) -> None:
    make(skill)
    with pytest.raises(SkillUnsafeError, match=why) as caught:
        scanned(skill)
    assert "\n" not in caught.value.message


@pytest.mark.root
def test_a_device_is_refused(skill: Path) -> None:
    os.mknod(skill / "null", 0o020666, os.makedev(1, 3))
    with pytest.raises(SkillUnsafeError, match="'null' is a device"):
        scanned(skill)


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        (StageLimits(entries=2), "more than 2 files"),
        (StageLimits(total_bytes=28), "more than 28 bytes"),
        (StageLimits(file_bytes=19), "'SKILL.md' has more than 19 bytes"),
        (StageLimits(path_bytes=10), "'scripts/run.py' has a path longer than 10"),
    ],
)
def test_each_limit_is_kept(skill: Path, limits: StageLimits, why: str) -> None:
    with pytest.raises(SkillUnsafeError, match=why):
        scanned(skill, limits)
    scanned(skill, StageLimits(entries=3, total_bytes=29, file_bytes=20, path_bytes=14))


def test_a_hostile_maze_of_links_costs_little(skill: Path) -> None:
    for number in range(3000):
        (skill / f"l{number}").symlink_to("scripts/../" * 31 + f"l{number // 2 * 2 + 1}x")
    assert scanned(skill).notes[0].endswith("and 2995 more")


# The digest.

part = st.text("ab/", min_size=1, max_size=4).map(lambda text: PurePosixPath(text.strip("/") or "a"))
entry = st.one_of(
    st.builds(Entry, part, st.just("directory")),
    st.builds(Entry, part, st.just("file"), executable=st.booleans(), target=st.text("ab", max_size=2)),
    st.builds(Entry, part, st.just("link"), target=st.text("ab", min_size=1, max_size=3)),
)
tree = st.lists(entry, max_size=4, unique_by=lambda entry: entry.path)


def digest(entries: list[Entry]) -> str:
    # `target` stands for the bytes of a file here.
    return tree_digest(SkillTree(tuple(entries)), lambda one: hashlib.sha256(one.target.encode()).digest())


@given(tree, tree)
def test_trees_share_a_digest_only_when_they_are_the_same(one: list[Entry], other: list[Entry]) -> None:
    assert (digest(one) == digest(other)) == (one == other)
