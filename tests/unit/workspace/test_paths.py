"""The path rule: whatever the text, the result is inside or an error."""

from __future__ import annotations

import errno
import os
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.errors import PathEscapeError
from sandbox_skills.spec import SKILLS, WORKSPACE
from sandbox_skills.workspace.paths import (
    MAX_LINKS,
    MAX_NAME_BYTES,
    MAX_PATH_BYTES,
    box_path,
    follow_inside,
    inside,
    link_target,
    name_fault,
    open_following_inside,
    open_inside,
    open_root,
    relative_inside,
    safe_file_name,
    shown,
)

SKILL = SKILLS / "abc"

path_text = st.one_of(
    st.text(),
    st.lists(
        st.sampled_from(
            ["..", ".", "", "a", "b c", "workspace", "skills", "é", "\\", "\0", "\ud800", "x" * 256]
        ),
        max_size=12,
    ).map("/".join),
)


@given(path_text)
def test_a_box_path_is_inside_or_refused(text: str) -> None:
    try:
        path = box_path(text, base=SKILL)
    except PathEscapeError:
        return
    assert path.is_relative_to(WORKSPACE) or path.is_relative_to(SKILL)
    assert ".." not in path.parts
    assert len(os.fsencode(path)) <= MAX_PATH_BYTES
    assert box_path(str(path), base=SKILL) == path


@given(path_text)
def test_a_relative_path_is_inside_or_refused(text: str) -> None:
    try:
        path = relative_inside(text)
    except PathEscapeError:
        return
    assert not path.is_absolute()
    assert ".." not in path.parts
    assert relative_inside(str(path)) == path


@given(path_text)
def test_a_safe_file_name_is_one_name(text: str) -> None:
    name = safe_file_name(text)
    assert name_fault(name) == ""
    assert safe_file_name(name) == name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("out/a.txt", "/workspace/out/a.txt"),
        ("./out//a.txt", "/workspace/out/a.txt"),
        ("/workspace/out/../work", "/workspace/work"),
        (".", "/workspace"),
        ("out/", "/workspace/out"),
        ("-rf", "/workspace/-rf"),
    ],
)
def test_a_path_from_the_workspace_is_normalised(text: str, expected: str) -> None:
    assert str(box_path(text)) == expected


def test_a_path_may_climb_from_its_base_to_another_place_in_the_workspace() -> None:
    assert box_path("../out", base=WORKSPACE / "work") == WORKSPACE / "out"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "..",
        "../../etc/passwd",
        "/etc/passwd",
        "/",
        "//etc",
        "/workspacex",
        "/workspace/../etc",
        "/../workspace/../../etc",
        "a\0b",
        "..\\..\\x",
        "\udcff",
        "x" * 256,
        "x/" * 2048,
    ],
)
def test_what_leaves_the_workspace_or_cannot_be_a_path_is_refused(text: str) -> None:
    with pytest.raises(PathEscapeError):
        box_path(text)


def test_one_skill_does_not_reach_another() -> None:
    with pytest.raises(PathEscapeError, match="leaves /skills/abc and /workspace"):
        box_path("../other/run.sh", base=SKILL)


def test_base_and_text_together_may_not_be_too_long() -> None:
    base = WORKSPACE / "/".join(["x" * 200] * 15)
    with pytest.raises(PathEscapeError, match="longer than 4095"):
        box_path("/".join(["y" * 200] * 10), base=base)


def test_an_absolute_path_is_no_relative_one() -> None:
    with pytest.raises(PathEscapeError, match="is absolute"):
        relative_inside("/a")


def test_a_relative_path_may_not_climb_out_and_come_back() -> None:
    with pytest.raises(PathEscapeError, match="leaves its root"):
        relative_inside("../root/a")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("../notes.txt", "notes.txt"),
        ("C:\\tmp\\notes.txt", "notes.txt"),
        ("C:notes.txt", "notes.txt"),
        ("dir/", "dir"),
        ("a\nb\x1b[31m.txt", "ab[31m.txt"),
        ("  spaced name.txt ", "spaced name.txt"),
        ("", "upload"),
        (".", "upload"),
        ("..", "upload"),
        ("/", "upload"),
        ("\0", "upload"),
        ("x" * 300 + ".tar", "x" * 251 + ".tar"),
        ("é" * 200 + ".x", "é" * 126 + ".x"),
        ("x." + "y" * 300, "x." + "y" * 253),
    ],
)
def test_a_foreign_file_name_becomes_a_harmless_one(text: str, expected: str) -> None:
    assert safe_file_name(text) == expected
    assert len(expected.encode()) <= MAX_NAME_BYTES


def test_an_untrusted_path_is_shown_short_and_escaped() -> None:
    assert shown("a\n\udcff\x1b") == r"'a\n\udcff\x1b'"
    assert len(shown("x" * 10_000)) < 200


# Links, as text.


def followed(path: str, links: dict[str, str]) -> str:
    return str(follow_inside(PurePosixPath(path), lambda at: links.get(str(at))))


def test_links_inside_are_followed_name_by_name() -> None:
    links = {"a": "d/e", "d/e/up": "../x", "d/self": "."}
    assert followed("a/up/file", links) == "d/x/file"
    assert followed("a/../f", links) == "d/f"
    assert followed("d/self/self/g", links) == "d/g"
    assert followed("plain/file", links) == "plain/file"


@pytest.mark.parametrize(
    "links", [{"a": "/etc"}, {"a": ".."}, {"a": "d/../../root/d"}, {"a": "b", "b": "a"}, {"a": "a/a"}]
)
def test_links_that_leave_or_loop_are_refused(links: dict[str, str]) -> None:
    with pytest.raises(PathEscapeError):
        followed("a", links)


def test_a_chain_may_have_a_few_links_and_no_more() -> None:
    chain = {str(number): str(number + 1) for number in range(20)}
    assert followed(str(20 - MAX_LINKS), chain) == "20"
    with pytest.raises(PathEscapeError, match="loop"):
        followed(str(19 - MAX_LINKS), chain)


names = st.sampled_from(["a", "b", "c"])
targets = st.lists(st.sampled_from(["a", "b", "c", "..", "."]), min_size=1, max_size=6).map("/".join)


@given(st.dictionaries(st.lists(names, min_size=1, max_size=3).map("/".join), targets, max_size=6), targets)
def test_following_any_links_ends_inside_at_no_link(links: dict[str, str], path: str) -> None:
    try:
        end = followed(path, links)
    except PathEscapeError:
        return
    assert ".." not in PurePosixPath(end).parts
    assert not end.startswith("/")
    assert end not in links


# Files on the host.


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    root = tmp_path / "root"
    (root / "d").mkdir(parents=True)
    (root / "d" / "file").write_text("hello")
    (root / "out").symlink_to(outside)
    (root / "leak").symlink_to(outside / "secret")
    (root / "good").symlink_to("d/../d/file")
    (root / "dir").symlink_to("d")
    os.mkfifo(root / "fifo")
    return root


def read(root: Path, path: str, flags: int = os.O_RDONLY) -> bytes:
    with open_root(root) as root_fd:
        descriptor = open_inside(root_fd, PurePosixPath(path), flags)
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def test_a_file_inside_opens(tree: Path) -> None:
    assert read(tree, "d/file") == b"hello"


@pytest.mark.parametrize("path", ["out/secret", "leak", "dir/file", "good"])
def test_no_link_is_followed_when_opening(tree: Path, path: str) -> None:
    with pytest.raises(PathEscapeError, match="is a link"):
        read(tree, path)
    with pytest.raises(PathEscapeError, match="through a link"):
        inside(tree, path)


def test_a_link_is_not_written_through(tree: Path) -> None:
    with open_root(tree) as root_fd, pytest.raises(PathEscapeError):
        open_inside(root_fd, PurePosixPath("leak"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    assert (tree.parent / "outside" / "secret").read_text() == "secret"


def test_a_file_can_be_made_below(tree: Path) -> None:
    with open_root(tree) as root_fd:
        os.close(open_inside(root_fd, PurePosixPath("d/new"), os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    assert (tree / "d" / "new").stat().st_mode & 0o777 == 0o600


def test_a_missing_file_is_an_os_error(tree: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(tree, "d/none")
    with pytest.raises(NotADirectoryError):
        read(tree, "d/file/x")


def test_a_fifo_does_not_block(tree: Path) -> None:
    assert read(tree, "fifo") == b""
    with pytest.raises(OSError, match=os.strerror(errno.ENXIO)):
        read(tree, "fifo", os.O_WRONLY)


def test_the_root_itself_may_not_be_a_link(tree: Path) -> None:
    with pytest.raises(NotADirectoryError), open_root(tree / "dir"):
        pass


def test_inside_takes_what_does_not_exist_yet(tree: Path) -> None:
    assert inside(tree, "d/new/deep") == tree / "d" / "new" / "deep"
    assert inside(tree, ".") == tree


def test_links_inside_can_be_followed_on_demand(tree: Path) -> None:
    with open_root(tree) as root_fd:
        descriptor = open_following_inside(root_fd, PurePosixPath("good"), os.O_RDONLY)
        assert os.read(descriptor, 10) == b"hello"
        os.close(descriptor)
        for path in ("out/secret", "leak"):
            with pytest.raises(PathEscapeError, match="absolute"):
                open_following_inside(root_fd, PurePosixPath(path), os.O_RDONLY)


def test_link_target_passes_on_real_faults(tree: Path) -> None:
    with open_root(tree) as root_fd:
        assert link_target(root_fd, PurePosixPath("d/file/x")) is None
        with pytest.raises(OSError, match=os.strerror(errno.ENAMETOOLONG)):
            link_target(root_fd, PurePosixPath("x" * 300))
