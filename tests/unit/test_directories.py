"""Directories of ours are ours alone, and those of others stay as they are."""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox_skills import wiring
from sandbox_skills.catalog import Pin
from sandbox_skills.directories import (
    Account,
    make_private,
    neutral_directory,
    owned_directory,
    sweep_owned,
    tells_of,
)
from sandbox_skills.engines.doctor.checks import Directory, directory_check
from sandbox_skills.engines.instance import Instance
from sandbox_skills.settings import Settings
from sandbox_skills.workspace.staging import SkillStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_missing_is_made_private_and_what_is_there_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir(mode=0o755)
    make_private(tmp_path / "shared/a/b")
    make_private(tmp_path / "shared/a/b")
    assert [mode(tmp_path / name) for name in ("shared", "shared/a", "shared/a/b")] == [0o755, 0o700, 0o700]


def test_a_file_in_the_way_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in ("file", "file/below"):
        with pytest.raises(OSError, match="file"):
            make_private(tmp_path / path)


def test_a_directory_is_made_again_where_a_sweep_came_before_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = fcntl.flock
    swept: list[str] = []

    def late(descriptor: int, how: int) -> None:
        if how == fcntl.LOCK_EX and not swept:
            swept.extend(sweep_owned(tmp_path, "x-"))
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with owned_directory(tmp_path, "x-") as path:
        assert (len(swept), swept == [path.name]) == (1, False)
        assert list(tmp_path.iterdir()) == [path]
        assert sweep_owned(tmp_path, "x-") == []


@pytest.mark.root
def test_a_sweep_leaves_what_belongs_to_another_user(tmp_path: Path) -> None:
    (tmp_path / "x-theirs").mkdir()
    os.chown(tmp_path / "x-theirs", 12345, 12345)
    (tmp_path / "x-ours").mkdir()
    assert sweep_owned(tmp_path, "x-") == ["x-ours"]


def make_store(data: Path) -> None:
    SkillStore(data / "store")


def make_instance(data: Path) -> None:
    Instance(data / "instances").close()


def drop_a_pin(data: Path) -> None:
    wiring.trust(Settings(data_dir=data)).drop([Pin("nobody", "", {})])


@pytest.mark.parametrize("make", [make_store, make_instance, drop_a_pin])
def test_whoever_comes_first_makes_a_data_directory_that_doctor_does_not_mind(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    data = tmp_path / "share" / "sandbox-skills"
    make(data)
    status = data.stat()
    assert (mode(data), mode(data.parent)) == (0o700, 0o700)
    found = directory_check(
        Directory(
            data,
            exists=True,
            writable=True,
            mode=status.st_mode,
            uid=status.st_uid,
            asking_uid=status.st_uid,
        )
    )
    assert found.state == "ok"


ALICE = Account(1000, "alice", Path("/home/alice"))


@pytest.mark.parametrize(
    "path", ["/home/alice/.local/share/sandbox-skills", "/home/alice", "/data/alice/x", "/alice"]
)
def test_a_path_tells_of_whoever_is_named_in_it(path: str) -> None:
    assert tells_of(Path(path), ALICE)


@pytest.mark.parametrize("path", ["/var/lib/sandbox-skills/1000", "/home/alicex/x", "/srv/malice/x"])
def test_and_of_nobody_else(path: str) -> None:
    assert not tells_of(Path(path), ALICE)


def test_an_account_without_a_home_is_not_told_by_every_path() -> None:
    assert not tells_of(Path("/srv/x"), Account(7, "", Path("/")))


@pytest.mark.root
class TestNeutralDirectory:
    def test_root_has_one_where_it_can_be_made(self, tmp_path: Path) -> None:
        base = tmp_path / "lib" / "sandbox-skills"
        root = Account(0, "root", Path("/root"))
        assert neutral_directory(root, base=base) == base / "0"
        assert list(tmp_path.iterdir()) == []
        make_private(base / "0")
        assert neutral_directory(root, base=base) == base / "0"

    def test_another_account_has_one_that_root_has_made_for_it_alone(self, tmp_path: Path) -> None:
        assert neutral_directory(ALICE, base=tmp_path) is None
        own = tmp_path / "1000"
        own.mkdir(mode=0o700)
        assert neutral_directory(ALICE, base=tmp_path) is None
        os.chown(own, 1000, 1000)
        assert neutral_directory(ALICE, base=tmp_path) == own

    @pytest.mark.parametrize("spoilt", ["open", "link", "file", "base open", "base of another"])
    def test_what_others_can_change_is_none(self, tmp_path: Path, spoilt: str) -> None:
        own, elsewhere = tmp_path / "1000", tmp_path / "elsewhere"
        elsewhere.mkdir(mode=0o700)
        own.mkdir(mode=0o700)
        for path in (own, elsewhere):
            os.chown(path, 1000, 1000)
        match spoilt:
            case "open":
                own.chmod(0o750)
            case "link":
                own.rmdir()
                own.symlink_to(elsewhere)
            case "file":
                own.rmdir()
                own.touch()
            case "base open":
                tmp_path.chmod(0o777)
            case _:
                os.chown(tmp_path, 1000, 1000)
        assert neutral_directory(ALICE, base=tmp_path) is None
        os.chown(tmp_path, 0, 0)
