"""Archives of strangers: what is sound comes out whole, everything else is refused, nothing lands elsewhere."""

from __future__ import annotations

import io
import os
import stat
import struct
import tarfile
import zipfile
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandbox_skills.errors import SourceError
from sandbox_skills.install.limits import FetchLimits
from sandbox_skills.install.members import MAX_READ
from sandbox_skills.install.unpack import unpack
from sandbox_skills.workspace.skill_tree import StageLimits

if TYPE_CHECKING:
    from pathlib import Path

FILES = {"skill/SKILL.md": b"---\nname: skill\n---\n", "skill/scripts/ünïcode file.py": b"print(1)\n"}
LIMITS = FetchLimits()
SMALL = replace(
    LIMITS,
    ratio_free_bytes=1000,
    ratio=20,
    unpacked=StageLimits(entries=20, total_bytes=100_000, file_bytes=50_000, depth=4, path_bytes=60),
)


def make_zip(path: Path, files: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def make_tar(path: Path, *members: tarfile.TarInfo, mode: str = "w", data: bytes = b"") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for member in members:
            member.size = len(data) if member.isreg() else 0
            archive.addfile(member, io.BytesIO(data))
    return path


def entry(name: str, kind: bytes = tarfile.REGTYPE, target: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, target, mode
    return info


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "incoming" / "unpacked"
    path.mkdir(parents=True)
    return path


def refused(archive: Path, target: Path, limits: FetchLimits = LIMITS) -> str:
    with pytest.raises(SourceError) as caught:
        unpack(archive, target, limits)
    return caught.value.message


def contents(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


@pytest.mark.parametrize(
    "compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
def test_a_zip_comes_out_whole(tmp_path: Path, target: Path, compression: int) -> None:
    unpack(make_zip(tmp_path / "a", FILES, compression), target, LIMITS)
    assert contents(target) == FILES


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_a_tar_comes_out_whole_whatever_its_name(tmp_path: Path, target: Path, mode: str) -> None:
    archive = make_tar(
        tmp_path / "a.zip", entry("./skill/", tarfile.DIRTYPE), entry("./skill/x.py"), mode=mode, data=b"1\n"
    )
    unpack(archive, target, LIMITS)
    assert contents(target) == {"skill/x.py": b"1\n"}
    assert [path.name for path in target.parent.iterdir()] == ["unpacked"]


def test_only_the_executable_bit_of_a_mode_is_kept(tmp_path: Path, target: Path) -> None:
    unpack(make_tar(tmp_path / "a", entry("x", mode=0o6777), entry("y", mode=0o600)), target, LIMITS)
    assert stat.S_IMODE((target / "x").stat().st_mode) == 0o755
    assert stat.S_IMODE((target / "y").stat().st_mode) == 0o644


def test_links_of_a_zip_and_of_a_tar_are_links_again(tmp_path: Path, target: Path) -> None:
    unpack(make_tar(tmp_path / "a", entry("deep/link", tarfile.SYMTYPE, "../x")), target, LIMITS)
    assert str((target / "deep" / "link").readlink()) == "../x"
    info = zipfile.ZipInfo("other")
    info.create_system, info.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "z", "w") as archive:
        archive.writestr(info, "deep")
    unpack(tmp_path / "z", target, LIMITS)
    assert str((target / "other").readlink()) == "deep"


def test_nothing_is_written_through_a_link(tmp_path: Path, target: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    archive = make_tar(
        tmp_path / "a", entry("link", tarfile.SYMTYPE, str(outside)), entry("link/x"), data=b"out"
    )
    refused(archive, target)
    assert list(outside.iterdir()) == []


HOSTILE_NAMES = [
    *("/etc/passwd", "../x", "a/../../x", "a/../x", "..", "a//b", "a/./b", "C:\\x", "a\\..\\x"),
    *("x\x01y", "x\ny", "a" * 256, "/"),
]


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_name_that_extractors_read_in_different_ways_is_refused(
    tmp_path: Path, target: Path, name: str
) -> None:
    refused(make_tar(tmp_path / "tar", entry(name)), target)
    refused(make_zip(tmp_path / "zip", {name: b""}), target)
    assert list(target.iterdir()) == []


@pytest.mark.parametrize(
    "names",
    [("a", "a"), ("a", "A"), ("a/x", "A/y"), ("a", "a/x"), ("a/x", "a"), ("é", "e\u0301"), ("ß", "ss")],
)
def test_two_names_that_are_one_file_somewhere_are_refused(
    tmp_path: Path, target: Path, names: tuple[str, str]
) -> None:
    refused(make_tar(tmp_path / "tar", *map(entry, names)), target)


@pytest.mark.parametrize(
    "kind", [tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.CONTTYPE, b"Z"]
)
def test_what_is_neither_file_directory_nor_symlink_is_refused(
    tmp_path: Path, target: Path, kind: bytes
) -> None:
    archive = make_tar(tmp_path / "tar", entry("ok"), entry("x", kind, "ok"))
    if kind == tarfile.CONTTYPE:  # read as plain files, as the format asks for
        unpack(archive, target, LIMITS)
        assert set(contents(target)) == {"ok", "x"}
    else:
        assert "no skill may hold" in refused(archive, target)


def test_a_device_in_a_zip_is_refused(tmp_path: Path, target: Path) -> None:
    info = zipfile.ZipInfo("x")
    info.create_system, info.external_attr = 3, (stat.S_IFCHR | 0o666) << 16
    with zipfile.ZipFile(tmp_path / "z", "w") as archive:
        archive.writestr(info, "")
    assert "no skill may hold" in refused(tmp_path / "z", target)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"a": bytes(60_000)}, "more than 50000"),
        ({name: bytes(40_000) for name in "abc"}, "unpacks to more than"),
        ({"a": bytes(30_000)}, "unpacks to more than"),
        ({f"f{number}": b"" for number in range(21)}, "more than 20 files"),
        ({"a/b/c/d/e": b""}, "too deep or too long"),
        ({"a" * 61: b""}, "too deep or too long"),
    ],
)
def test_each_limit_ends_the_unpacking(
    tmp_path: Path, target: Path, files: dict[str, bytes], words: str
) -> None:
    assert words in refused(make_zip(tmp_path / "z", files), target, SMALL)


@pytest.mark.parametrize(
    "files",
    [
        {f"f{number}": b"" for number in range(21)},
        {f"{number}/{number}": b"" for number in range(11)},
        {name: bytes(40_000) for name in "abc"},
        {"a": b"", "b": bytes(60_000)},
        {"a": b"", "b/c/d/e/f": b""},
        {"a": b"", "b": b"", "B": b""},
        {"a": b"", "../b": b""},
    ],
)
def test_what_an_archive_says_itself_is_refused_before_anything_is_written(
    tmp_path: Path, target: Path, files: dict[str, bytes]
) -> None:
    refused(make_zip(tmp_path / "z", files), target, SMALL)
    with tarfile.open(tmp_path / "t", "w") as archive:
        for name, data in files.items():
            info = entry(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    refused(tmp_path / "t", target, SMALL)
    assert list(target.iterdir()) == []


def test_a_directory_that_tells_a_size_is_no_content(tmp_path: Path, target: Path) -> None:
    info = entry("d", tarfile.DIRTYPE)
    info.size = 40_000
    (tmp_path / "t").write_bytes(info.tobuf() + entry("d/x").tobuf() + bytes(2 * tarfile.BLOCKSIZE))
    unpack(tmp_path / "t", target, SMALL)
    assert contents(target) == {"d/x": b""}


def test_a_compressed_tar_is_stopped_while_it_grows(tmp_path: Path, target: Path) -> None:
    archive = make_tar(tmp_path / "t", entry("a"), mode="w:gz", data=bytes(40_000_000))
    assert "unpacks to more than" in refused(archive, target)
    assert sum(path.stat().st_size for path in target.parent.rglob("*") if path.is_file()) <= 16 * 1024 * 1024


def test_a_header_that_claims_much_is_not_read(tmp_path: Path, target: Path) -> None:
    header = entry("x", tarfile.XHDTYPE)
    header.size = MAX_READ + 1
    (tmp_path / "t").write_bytes(header.tobuf() + bytes(MAX_READ + 1024))
    assert "header of" in refused(tmp_path / "t", target)


def test_the_directory_of_a_zip_is_not_read_whole_where_it_is_huge(tmp_path: Path, target: Path) -> None:
    size = MAX_READ + 1
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, size, 4, 0)
    (tmp_path / "z").write_bytes(b"PK\x03\x04" + bytes(size) + end)
    assert "header of" in refused(tmp_path / "z", target)


def test_a_zip_that_lies_about_a_size_is_refused(tmp_path: Path, target: Path) -> None:
    archive = make_zip(tmp_path / "z", {"a": bytes(2000)})
    data = bytearray(archive.read_bytes())
    where = data.index(b"PK\x01\x02") + 24
    data[where : where + 4] = struct.pack("<L", 10)
    archive.write_bytes(data)
    refused(archive, target)


def test_an_encrypted_member_is_refused(tmp_path: Path, target: Path) -> None:
    archive = make_zip(tmp_path / "z", {"a": b"x"})
    data = bytearray(archive.read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    archive.write_bytes(data)
    assert "encrypted" in refused(archive, target)


def test_a_link_that_leads_to_no_path_is_refused(tmp_path: Path, target: Path) -> None:
    assert "no path" in refused(make_tar(tmp_path / "t", entry("x", tarfile.SYMTYPE, "")), target)
    info = entry("x", tarfile.SYMTYPE, "a" * 5000)
    assert "no path" in refused(make_tar(tmp_path / "t2", info), target)


@pytest.mark.parametrize(
    "data", [b"", b"text", b"PK\x03\x04", b"\x1f\x8b", b"BZh9", b"\xfd7zXZ\x00", b"7z\xbc\xaf"]
)
def test_what_is_no_archive_is_refused(tmp_path: Path, target: Path, data: bytes) -> None:
    (tmp_path / "x").write_bytes(data)
    refused(tmp_path / "x", target)


def test_an_archive_that_is_cut_is_refused(tmp_path: Path, target: Path) -> None:
    for number, archive in enumerate(
        (
            make_zip(tmp_path / "z", {"a": os.urandom(5000)}),
            make_tar(tmp_path / "t", entry("a"), data=os.urandom(5000)),
            make_tar(tmp_path / "g", entry("a"), mode="w:gz", data=os.urandom(5000)),
        )
    ):
        archive.write_bytes(archive.read_bytes()[:2500])
        below = target / str(number)
        below.mkdir()
        refused(archive, below)


NAMES = st.text(
    st.sampled_from(["a", "A", "é", ".", "/", "\\", "\x00", "\n", " ", "ß", "%"]),
    min_size=1,
    max_size=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)
@given(st.lists(st.tuples(NAMES, st.sampled_from(["file", "directory", "link"]), NAMES), max_size=5))
def test_whatever_the_names_nothing_lands_outside(
    tmp_path_factory: pytest.TempPathFactory, members: list[tuple[str, str, str]]
) -> None:
    place = tmp_path_factory.mktemp("fuzz")
    target = place / "incoming" / "unpacked"
    target.mkdir(parents=True)
    kinds = {"file": tarfile.REGTYPE, "directory": tarfile.DIRTYPE, "link": tarfile.SYMTYPE}
    archive = make_tar(
        place / "t", *(entry(name, kinds[kind], leads_to) for name, kind, leads_to in members), data=b"x"
    )
    with suppress(SourceError):
        unpack(archive, target, LIMITS)
    outside = [path for path in place.rglob("*") if target not in path.parents]
    assert sorted(path.name for path in outside) == ["incoming", "t", "unpacked"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=200)
@given(st.binary(max_size=400), st.integers(0, 6), st.integers(0, 2000))
def test_whatever_the_bytes_it_is_unpacked_or_refused(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, kind: int, where: int
) -> None:
    place = tmp_path_factory.mktemp("bytes")
    archive = place / "x"
    if kind < 3:
        make_tar(
            archive, entry("a"), entry("l", tarfile.SYMTYPE, "a"), mode=("w", "w:gz", "w:xz")[kind], data=b"1"
        )
    elif kind < 6:
        make_zip(archive, FILES, (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA)[kind - 3])
    else:
        archive.write_bytes(noise)
    data = bytearray(archive.read_bytes())
    data[where : where + len(noise)] = noise
    archive.write_bytes(data)
    (place / "incoming" / "unpacked").mkdir(parents=True)
    try:
        unpack(archive, place / "incoming" / "unpacked", LIMITS)
    except SourceError as error:
        assert error.message  # noqa: PT017 - both ways are right
