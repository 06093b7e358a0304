from __future__ import annotations

import io
import os
import stat
import tarfile
from pathlib import Path

import pytest

from sandbox_skills.engines.bubblewrap import rootfs
from sandbox_skills.engines.bubblewrap.bootstrap import finish_command
from sandbox_skills.engines.image_source import content_hash
from sandbox_skills.errors import ImageError

WANTED = rootfs.Wanted()


def fill(root: Path) -> None:
    (root / "file").write_text("x")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def archive(*members: tarfile.TarInfo) -> io.BytesIO:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(b"x" * member.size))
    file.seek(0)
    return file


def member(name: str, kind: bytes = tarfile.REGTYPE, **values: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.mode = kind, 0o755
    info.uid, info.gid = os.getuid(), os.getgid()
    for field, value in values.items():
        setattr(info, field, value)
    return info


def test_one_is_made_once_and_found(tmp_path: Path) -> None:
    made = rootfs.make(tmp_path, WANTED, "a", fill)
    again = rootfs.make(tmp_path, WANTED, "a", lambda _: pytest.fail("it is there"))
    assert made == again == rootfs.find(tmp_path, WANTED)
    assert (made.path / "file").read_text() == "x"
    assert made.path.parent.name == f"slim-{content_hash('slim')[:12]}"
    assert stat.S_IMODE(made.path.parent.stat().st_mode) == 0o700


def test_its_path_holds_from_any_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rootfs.make(Path("trees"), WANTED, "a", fill)
    found = rootfs.find(Path("trees"), WANTED)
    assert found is not None
    assert found.path.is_absolute()


def test_another_identity_takes_its_place(tmp_path: Path) -> None:
    own = rootfs.Wanted(image="mine")
    rootfs.make(tmp_path, own, "a", fill)
    rootfs.make(tmp_path, own, "b", lambda root: (root / "other").touch())
    found = rootfs.find(tmp_path, own)
    assert found is not None
    assert (found.identity, names(found.path)) == ("b", ["other"])


def test_one_in_use_is_neither_replaced_nor_removed(tmp_path: Path) -> None:
    rootfs.make(tmp_path, WANTED, "a", fill)
    with rootfs.used(tmp_path, WANTED) as used:
        with pytest.raises(ImageError, match="in use"):
            rootfs.make(tmp_path, WANTED, "b", fill)
        assert rootfs.prune(tmp_path, frozenset()) == []
        assert (used.path / "file").exists()
    assert rootfs.prune(tmp_path, frozenset()) == [WANTED.name]
    assert rootfs.find(tmp_path, WANTED) is None


def test_what_is_kept_is_not_pruned(tmp_path: Path) -> None:
    rootfs.make(tmp_path, WANTED, "a", fill)
    assert rootfs.prune(tmp_path, frozenset({WANTED.name})) == []
    assert rootfs.prune(tmp_path / "none", frozenset()) == []


def test_what_failed_leaves_nothing_and_what_was_killed_is_swept(tmp_path: Path) -> None:
    def failing(root: Path) -> None:
        fill(root)
        raise ImageError("no")

    with pytest.raises(ImageError, match="no"):
        rootfs.make(tmp_path, WANTED, "a", failing)
    assert names(tmp_path) == ["lock"]
    (tmp_path / "new-killed").mkdir()
    rootfs.make(tmp_path, WANTED, "a", fill)
    assert names(tmp_path) == ["lock", WANTED.name]


def test_a_disk_that_fails_is_an_image_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ImageError, match="cannot be made"):
        rootfs.make(tmp_path / "file" / "below", WANTED, "a", fill)


def test_one_that_is_missing_is_told_with_its_command(tmp_path: Path) -> None:
    with (
        pytest.raises(ImageError, match=r"\(full\) is missing") as caught,
        rootfs.used(tmp_path, rootfs.Wanted("full")),
    ):
        pass
    assert caught.value.hint == "sandbox-skills image build --engine bubblewrap --target full"


def test_a_damaged_record_is_none(tmp_path: Path) -> None:
    made = rootfs.make(tmp_path, WANTED, "a", fill)
    (made.path.parent / "about.json").write_text("{")
    assert rootfs.find(tmp_path, WANTED) is None


def test_files_links_and_modes_are_unpacked(tmp_path: Path) -> None:
    tar = archive(
        member("etc", tarfile.DIRTYPE),
        member("etc/file", size=3, mode=0o640),
        member("etc/same", tarfile.LNKTYPE, linkname="etc/file", mode=0o640),
        member("bin", tarfile.SYMTYPE, linkname="/usr/bin"),
        member("setuid", size=1, mode=0o6755),
        member("tmp", tarfile.DIRTYPE, mode=0o1777),
    )
    rootfs.unpack(tar, tmp_path)
    assert (tmp_path / "etc/same").read_bytes() == b"xxx"
    assert str((tmp_path / "bin").readlink()) == "/usr/bin"
    modes = {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("etc/file", "setuid", "tmp")}
    assert modes == {"etc/file": 0o640, "setuid": 0o755, "tmp": 0o1777}


def test_devices_and_dockers_mark_stay_out(tmp_path: Path) -> None:
    rootfs.unpack(
        archive(member("null", tarfile.CHRTYPE), member("pipe", tarfile.FIFOTYPE), member(".dockerenv")),
        tmp_path,
    )
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x"])
def test_a_name_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    for tar in (archive(member(name, size=1)), archive(member("y", tarfile.LNKTYPE, linkname=name))):
        with pytest.raises(ImageError, match="cannot be unpacked"):
            rootfs.unpack(tar, root)
    assert names(tmp_path) == ["root"]


def test_what_is_no_tar_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="cannot be unpacked"):
        rootfs.unpack(io.BytesIO(b"no tar" * 1000), tmp_path)


def test_a_users_own_image_has_a_place_of_its_own() -> None:
    one, other = rootfs.Wanted(image="one"), rootfs.Wanted(image="other")
    assert one.name.startswith("own-")
    assert one.name != other.name
    assert str(one) == "image one"


def test_the_last_step_of_the_recipe_needs_a_user_namespace_only_for_a_user(tmp_path: Path) -> None:
    root, user = (finish_command(tmp_path / "bwrap", tmp_path, is_root=it) for it in (True, False))
    assert "--unshare-user" not in root
    assert user[1:6] == ["--unshare-user", "--uid", "0", "--gid", "0"]
    assert root[-5:] == ["--", "sh", "/opt/sandbox-skills/finish.sh", "20000", "4096"]
    assert "--unshare-net" in root
