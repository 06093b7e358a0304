"""A folder that came file by file: what is sound lies as it was sent, everything else is refused, nothing elsewhere."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.errors import SourceError
from sandbox_skills.install.received import ReceivedFile, assemble
from sandbox_skills.workspace.skill_tree import StageLimits

LIMITS = StageLimits()
SMALL = StageLimits(entries=10, total_bytes=1_000, file_bytes=600, depth=3, path_bytes=40)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "target").mkdir()
    return tmp_path / "target"


def received(folder: Path, files: list[tuple[str, bytes]]) -> list[ReceivedFile]:
    found = []
    for number, (name, data) in enumerate(files):
        path = folder / f"received-{number}"
        path.write_bytes(data)
        found.append(ReceivedFile(name, path))
    return found


def test_files_lie_under_their_names_and_programs_can_be_run(tmp_path: Path, target: Path) -> None:
    sent = [("s/SKILL.md", b"text"), ("s/scripts/run.sh", b"#!/bin/sh\n"), ("s/empty", b"")]
    assemble(received(tmp_path, sent), target, LIMITS)
    assert {
        str(path.relative_to(target)): path.read_bytes() for path in target.rglob("*") if path.is_file()
    } == dict(sent)
    assert stat.S_IMODE((target / "s/scripts/run.sh").stat().st_mode) == 0o755
    assert stat.S_IMODE((target / "s/SKILL.md").stat().st_mode) == 0o644


@pytest.mark.parametrize(
    "name",
    ["../x", "/etc/x", "a/../../x", "a//b", "", ".", "a\0b", "a\nb", "a\\b", "x" * 256, "\ud800", "a/./b"],
)
def test_a_name_that_could_lie_elsewhere_is_refused(tmp_path: Path, target: Path, name: str) -> None:
    with pytest.raises(SourceError):
        assemble(received(tmp_path, [(name, b"x")]), target, LIMITS)
    assert not list(target.iterdir())


@pytest.mark.parametrize(
    "names", [("a", "a"), ("a", "A"), ("é", "e\u0301"), ("d/x", "D/y"), ("a", "a/b"), ("a/b", "a")]
)
def test_two_names_that_one_file_system_takes_for_one_are_refused(
    tmp_path: Path, target: Path, names: tuple[str, str]
) -> None:
    with pytest.raises(SourceError, match="one name"):
        assemble(received(tmp_path, [(name, b"x") for name in names]), target, LIMITS)


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ([("big", b"x" * 601)], "more than 600 bytes"),
        ([(str(n), b"x" * 500) for n in range(3)], "more than 1000 bytes"),
        ([(str(n), b"") for n in range(11)], "more than 10 files"),
        ([("a/b/c/d", b"")], "too deep"),
        ([("x" * 41, b"")], "too long"),
    ],
)
def test_what_is_over_a_limit_is_refused(
    tmp_path: Path, target: Path, files: list[tuple[str, bytes]], why: str
) -> None:
    with pytest.raises(SourceError, match=why):
        assemble(received(tmp_path, files), target, SMALL)


@given(names=st.lists(st.text(alphabet="ab./\\\0A", max_size=8), max_size=6))
def test_whatever_the_names_are_nothing_lies_outside(names: list[str]) -> None:
    with TemporaryDirectory() as folder:
        root = Path(folder)
        target = root / "deep" / "target"
        target.mkdir(parents=True)
        sent = received(root, [(name, b"x") for name in names])
        before = {path for path in root.rglob("*") if not path.is_relative_to(target)}
        try:
            assemble(sent, target, replace(LIMITS, entries=20))
        except SourceError:
            pass
        else:
            lying = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
            assert lying == {str(PurePosixPath(name.removesuffix("/"))) for name in names}
        assert {path for path in root.rglob("*") if not path.is_relative_to(target)} == before
        assert not any(path.is_symlink() for path in root.rglob("*"))
