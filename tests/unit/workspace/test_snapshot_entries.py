"""Folders and links of a snapshot: what a listing says, and that no link of one leads out of it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.workspace.snapshot_entries import Folder, Left, Link, Places, read_listing, stays

NAMES = st.sampled_from(["..", ".", "a", "b", "out", "work", "", "c"])
TARGETS = st.lists(NAMES, max_size=6).map("/".join)
PATHS = st.tuples(st.sampled_from(["work", "out"]), st.lists(st.sampled_from("abc"), min_size=1, max_size=3))


def path(text: str) -> PurePosixPath:
    return PurePosixPath(text)


@pytest.mark.parametrize(
    "target",
    [
        "x",
        "./x",
        "d/e",
        "..",
        "../../out/x",
        "../../runs",
        "/workspace/out",
        "/workspace",
        "//usr/bin/python3",
        ".",
    ],
)
def test_links_that_stay(target: str) -> None:
    assert stays(Link(path("work/d/l"), target))


@pytest.mark.parametrize(
    "target",
    [
        *(
            "",
            "/",
            "/etc/passwd",
            "/usrx",
            "/workspaces/x",
            "/workspace/../etc",
            "/usr/../etc",
            "/../workspace",
        ),
        *(
            "../../..",
            "../../../etc",
            "d/../x",
            "a\\b",
            "a\udcff",
            "n" * 256,
            "x/" * 2048,
            "/skills/x",
            "/proc/1",
        ),
    ],
)
def test_links_that_lead_elsewhere(target: str) -> None:
    assert not stays(Link(path("work/d/l"), target))


@given(st.lists(st.tuples(PATHS, TARGETS), max_size=6))
def test_whatever_links_stay_none_of_them_leads_out(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[tuple[str, list[str]], str]]
) -> None:
    root = tmp_path_factory.mktemp("box").resolve()
    places = Places()
    links = [Link(path("/".join([first, *names])), target) for (first, names), target in drawn]
    links = [
        link for link in links if stays(link) and not link.target.startswith("/") and places.take(link.path)
    ]
    for link in links:
        (root / link.path).parent.mkdir(parents=True, exist_ok=True)
        (root / link.path).symlink_to(link.target)
    for link in links:
        with suppress(OSError):  # it leads to nothing
            place = os.open(root / link.path, os.O_PATH)
            assert Path(f"/proc/self/fd/{place}").readlink().is_relative_to(root)
            os.close(place)


@given(st.text(max_size=40))
def test_any_target_stays_or_does_not(target: str) -> None:
    if stays(Link(path("out/l"), target)):
        assert "\\" not in target
        assert target.startswith("/") or target.count("..") <= 1


def test_a_listing_is_read_and_what_is_no_entry_is_told() -> None:
    rows: list[tuple[str, str, str | bytes, str | bytes]] = [
        ("l", "777", "work/l", "x"),
        ("l", "777", "work/out", "/etc"),
        ("l", "777", b"work/m", b"caf\xe9"),
        ("d", "2750", "out/d", ""),
        ("d", "755", "work/inputs", ""),
        ("d", "700", "work/.venv", ""),
        ("d", "755", b"work/caf\xe9", ""),
        ("d", "755", "../x", ""),
        ("d", "755", "home/x", ""),
        ("d", "rwx", "out/e", ""),
        ("d", "755", "out/" + "n/" * 80, ""),
    ]
    fields = [os.fsencode(field) + b"\0" for row in rows for field in row]
    listing = b"".join(fields) + b"l\0777\0work/cut"
    *entries, deep = read_listing(listing)
    assert entries == [
        Link(path("work/l"), "x"),
        Left("work/out", "link"),
        Left("work/m", "link"),
        Folder(path("out/d"), 0o750),
        Folder(path("work/.venv"), 0o700),
        Left("work/caf\\xe9", "name"),
        Left("../x", "name"),
        Left("home/x", "name"),
        Left("out/e", "unreadable"),
    ]
    assert isinstance(deep, Left)


@given(st.binary(max_size=200))
def test_any_listing_is_read(listing: bytes) -> None:
    for entry in read_listing(listing):
        assert isinstance(entry, Left) or entry.path.parts[0] in {"work", "out"}
