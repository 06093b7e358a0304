"""Snapshots: what is kept comes back the same, and what a stranger put into a tar does not get in."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox_skills.engines.fake import FakeEngine
from sandbox_skills.errors import EngineError, OutputError, SnapshotError
from sandbox_skills.spec import WORKSPACE, CollectLimits, FoundFile, SandboxSpec
from sandbox_skills.spec import Collection as Collected
from sandbox_skills.workspace.choices import SnapshotLimits
from sandbox_skills.workspace.outputs import MemorySink
from sandbox_skills.workspace.snapshot import (
    Snapshot,
    plan_restore,
    restore_snapshot,
    take_snapshot,
)
from sandbox_skills.workspace.snapshot_entries import Folder, Link
from sandbox_skills.workspace.snapshot_folder import SnapshotFolder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from sandbox_skills.engines.base import FileSink, Sandbox

LIMITS = SnapshotLimits(files=10, bytes=10_000)


async def filled(sandbox: Sandbox, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        await sandbox.put(PurePosixPath(name), _once(data))


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


async def content(sandbox: Sandbox) -> dict[str, bytes]:
    sink = MemorySink()
    await sandbox.collect(["**"], CollectLimits(files=1000), sink)
    return {str(file.path): file.data or b"" for file in sink.files}


@pytest.fixture
async def boxes() -> AsyncIterator[tuple[Sandbox, Sandbox]]:
    engine, spec = FakeEngine(), SandboxSpec(needs=frozenset())
    async with engine.open(spec) as one, engine.open(spec) as two:
        yield one, two


@pytest.mark.anyio
class TestThereAndBack:
    async def test_files_of_work_and_out_come_back_and_no_others(
        self, boxes: tuple[Sandbox, Sandbox], tmp_path: Path
    ) -> None:
        one, two = boxes
        long = "work/" + "/".join(["d" * 200] * 3) + "/x"
        kept = {
            "work/a": b"a",
            "out/d/b": bytes(5000),
            "work/\N{SNOWMAN} \n": b"",
            long: b"long",
            "out/e": b"x" * 512,
        }
        await filled(one, {**kept, "runs/r/x": b"x", "home/y": b"y", "skills/s/z": b"z"})
        snapshot = await take_snapshot(one, tmp_path / "new" / "s.tar", tenant="t")
        assert (snapshot.files, snapshot.bytes) == (5, sum(map(len, kept.values())))
        assert snapshot.path.stat().st_mode & 0o777 == 0o600
        assert snapshot.as_dict()["files"] == 5
        await restore_snapshot(two, snapshot, tenant="t")
        assert await content(two) == kept

    async def test_an_empty_workspace_is_a_snapshot_too(
        self, boxes: tuple[Sandbox, Sandbox], tmp_path: Path
    ) -> None:
        snapshot = await take_snapshot(boxes[0], tmp_path / "s.tar", tenant="t")
        await restore_snapshot(boxes[1], snapshot, tenant="t")
        assert (snapshot.files, await content(boxes[1])) == (0, {})

    async def test_any_tar_program_reads_it(self, boxes: tuple[Sandbox, Sandbox], tmp_path: Path) -> None:
        await filled(boxes[0], {"out/a": b"abc"})
        await take_snapshot(boxes[0], tmp_path / "s.tar", tenant="t")
        with tarfile.open(tmp_path / "s.tar") as tar:
            (member,) = tar.getmembers()
            assert (member.name, member.size, member.uid, member.mtime) == ("out/a", 3, 0, 0)

    async def test_another_tenant_has_no_such_snapshot(
        self, boxes: tuple[Sandbox, Sandbox], tmp_path: Path
    ) -> None:
        snapshot = await take_snapshot(boxes[0], tmp_path / "s.tar", tenant="t")
        with pytest.raises(SnapshotError, match="no such"):
            await restore_snapshot(boxes[1], snapshot, tenant="u")

    async def test_what_is_over_the_limits_is_left_out_and_told(
        self, boxes: tuple[Sandbox, Sandbox], tmp_path: Path
    ) -> None:
        one, two = boxes
        await filled(one, {"out/a": bytes(8), "out/big": bytes(11), "work/c": b"c"})
        limits = SnapshotLimits(files=3, bytes=10)
        snapshot = await take_snapshot(one, tmp_path / "s.tar", tenant="t", limits=limits)
        await restore_snapshot(two, snapshot, tenant="t", limits=limits)
        assert await content(two) == {"out/a": bytes(8), "work/c": b"c"}

    async def test_a_file_that_was_cut_or_shrank_is_whole_or_left_out(
        self, boxes: tuple[Sandbox, Sandbox], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        one, two = boxes
        rows = [
            (FoundFile("out/cut", 9, 0o644, truncated=True), b"half"),
            (FoundFile("out/shrank", 9, 0o755), b"short"),
            (FoundFile("out/a\\b", 1, 0o644), b"x"),
        ]

        async def collect(patterns: Sequence[str], limits: CollectLimits, sink: FileSink) -> Collected:
            for file, data in rows:
                sink.begin(file)
                sink.write(data)
                sink.end()
            return Collected(tuple(file for file, _ in rows))

        monkeypatch.setattr(one, "collect", collect)
        snapshot = await take_snapshot(one, tmp_path / "s.tar", tenant="t")
        assert snapshot.skipped == {"out/cut": "collected_bytes", "out/a\\b": "name"}
        await restore_snapshot(two, snapshot, tenant="t")
        assert await content(two) == {"out/shrank": b"short"}

    async def test_a_host_that_cannot_keep_it_and_a_box_that_is_lost_leave_no_part(
        self, boxes: tuple[Sandbox, Sandbox], tmp_path: Path
    ) -> None:
        await filled(boxes[0], {"out/a": b"abc"})
        (tmp_path / "file").touch()
        with pytest.raises(OutputError):
            await take_snapshot(boxes[0], tmp_path / "file" / "s.tar", tenant="t")
        (tmp_path / "folder").mkdir()
        with pytest.raises(OutputError):
            await take_snapshot(boxes[0], tmp_path / "folder", tenant="t")
        boxes[0].lose()  # type: ignore[attr-defined]  # it is the fake
        with pytest.raises(EngineError):
            await take_snapshot(boxes[0], tmp_path / "s.tar", tenant="t")
        assert names(tmp_path) == {"file", "folder"}

    async def test_a_hostile_tar_puts_nothing(self, boxes: tuple[Sandbox, Sandbox], tmp_path: Path) -> None:
        tar(tmp_path / "s.tar", ("out/fine", b"x", {}), ("../x", b"x", {}))
        with pytest.raises(SnapshotError):
            await restore_snapshot(boxes[0], Snapshot(tmp_path / "s.tar", "t", 2, 2), tenant="t")
        assert await content(boxes[0]) == {}


def tar(path: Path, *members: tuple[str, bytes, dict[str, Any]]) -> Path:
    with tarfile.open(path, "w") as file:
        for name, data, fields in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            for field, value in fields.items():
                setattr(info, field, value)
            file.addfile(info, io.BytesIO(data))
    return path


HOSTILE: list[tuple[str, bytes, dict[str, Any]]] = [
    ("/etc/passwd", b"x", {}),
    ("../x", b"x", {}),
    ("out/../../x", b"x", {}),
    ("out", b"x", {}),
    ("runs/x", b"x", {}),
    ("skills/n/SKILL.md", b"x", {}),
    ("out/a\\b", b"x", {}),
    ("out/" + "n" * 300, b"x", {}),
    ("out/l", b"", {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}),
    ("out/h", b"", {"type": tarfile.LNKTYPE, "linkname": "out/x"}),
    ("out/l", b"", {"type": tarfile.SYMTYPE, "linkname": "../../x"}),
    ("out/l", b"", {"type": tarfile.SYMTYPE, "linkname": "d/../../../x"}),
    ("out/l", b"", {"type": tarfile.SYMTYPE, "linkname": "/workspace/../etc"}),
    ("out/l", b"", {"type": tarfile.SYMTYPE, "linkname": "//etc/passwd"}),
    ("out/l", b"", {"type": tarfile.SYMTYPE, "linkname": "/usr/../etc"}),
    ("out/l", b"", {"type": tarfile.SYMTYPE, "linkname": ""}),
    ("out/l", b"x", {"type": tarfile.SYMTYPE, "linkname": "fine"}),
    ("out", b"", {"type": tarfile.SYMTYPE, "linkname": "work"}),
    ("out", b"", {"type": tarfile.DIRTYPE}),
    ("out/../../d", b"", {"type": tarfile.DIRTYPE}),
    ("out/" + "d/" * 80, b"", {"type": tarfile.DIRTYPE}),
    ("out/d", b"x", {"type": tarfile.DIRTYPE}),
    ("out/f", b"", {"type": tarfile.FIFOTYPE}),
    ("out/c", b"", {"type": tarfile.CHRTYPE}),
    ("out/b", b"", {"type": tarfile.BLKTYPE}),
    (
        "out/s",
        b"",
        {"pax_headers": {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "9"}},
    ),
    ("out/big", bytes(10_001), {}),
]


class TestHostileTar:
    @pytest.mark.parametrize(("name", "data", "fields"), HOSTILE)
    def test_one_bad_entry_refuses_all(
        self, tmp_path: Path, name: str, data: bytes, fields: dict[str, Any]
    ) -> None:
        path = tar(tmp_path / "s.tar", ("out/fine", b"x", {}), (name, data, fields))
        with pytest.raises(SnapshotError):
            plan_restore(path, LIMITS)

    def test_too_many_entries_twins_and_files_below_files_are_refused(self, tmp_path: Path) -> None:
        many = tar(tmp_path / "many.tar", *((f"out/{number}", b"", {}) for number in range(11)))
        twins = tar(tmp_path / "twins.tar", ("out/x", b"", {}), ("out/./x", b"", {}))
        below = tar(tmp_path / "below.tar", ("out/x", b"", {}), ("out/x/y", b"", {}))
        for path in (many, twins, below):
            with pytest.raises(SnapshotError):
                plan_restore(path, LIMITS)

    def test_nothing_comes_below_or_in_place_of_a_link(self, tmp_path: Path) -> None:
        link: tuple[str, bytes, dict[str, Any]]
        link = ("out/l", b"", {"type": tarfile.SYMTYPE, "linkname": "d"})
        folder: tuple[str, bytes, dict[str, Any]] = ("out/d", b"", {"type": tarfile.DIRTYPE})
        for members in (
            (link, ("out/l/x", b"", {})),
            (("out/l/x", b"", {}), link),
            (link, ("out/l", b"", {})),
            (link, link),
            (link, ("out/l/d", b"", {"type": tarfile.DIRTYPE})),
            (("out/l/d", b"", {"type": tarfile.DIRTYPE}), link),
            (folder, ("out/d", b"", {})),
            (("out/d", b"", {}), folder),
            (folder, folder),
        ):
            with pytest.raises(SnapshotError):
                plan_restore(tar(tmp_path / "s.tar", *members), LIMITS)

    def test_folders_and_links_are_entries_like_files(self, tmp_path: Path) -> None:
        path = tar(
            tmp_path / "s.tar",
            ("out/d/x", b"x", {"mode": 0o4600}),
            ("out/d", b"", {"type": tarfile.DIRTYPE, "mode": 0o1700}),
            ("work/l", b"", {"type": tarfile.SYMTYPE, "linkname": "../out/d"}),
        )
        plan = plan_restore(path, replace(LIMITS, files=3))
        assert [(file.target, file.mode) for file in plan.files] == [(WORKSPACE / "out/d/x", 0o600)]
        assert plan.folders == (Folder(PurePosixPath("out/d"), 0o700),)
        assert plan.links == (Link(PurePosixPath("work/l"), "../out/d"),)
        with pytest.raises(SnapshotError, match="at most 2"):
            plan_restore(path, replace(LIMITS, files=2))

    def test_a_size_beyond_the_end_is_refused(self, tmp_path: Path) -> None:
        info = tarfile.TarInfo("out/x")
        info.size = 5_000
        (tmp_path / "s.tar").write_bytes(info.tobuf() + b"short")
        with pytest.raises(SnapshotError):
            plan_restore(tmp_path / "s.tar", LIMITS)

    def test_a_file_far_larger_than_a_snapshot_is_not_read(self, tmp_path: Path) -> None:
        with (tmp_path / "s.tar").open("wb") as file:
            file.truncate(1 << 30)
        with pytest.raises(SnapshotError, match="larger"):
            plan_restore(tmp_path / "s.tar", LIMITS)

    def test_what_is_no_file_is_refused(self, tmp_path: Path) -> None:
        tar(tmp_path / "real.tar")
        (tmp_path / "link.tar").symlink_to("real.tar")
        os.mkfifo(tmp_path / "fifo.tar")
        for name in ("link.tar", "fifo.tar", "missing.tar", "."):
            with pytest.raises(SnapshotError):
                plan_restore(tmp_path / name, LIMITS)

    def test_places_in_the_tar_are_those_of_the_bytes(self, tmp_path: Path) -> None:
        path = tar(tmp_path / "s.tar", ("out/a", b"first", {}), ("work/b", b"second", {"mode": 0o755}))
        files = plan_restore(path, LIMITS).files
        read = [path.read_bytes()[file.start : file.start + file.size] for file in files]
        assert read == [b"first", b"second"]
        assert [(str(file.target.relative_to(WORKSPACE)), file.mode) for file in files] == [
            ("out/a", 0o644),
            ("work/b", 0o755),
        ]

    @settings(max_examples=200)
    @given(st.binary(max_size=3000), st.integers(0, 2048), st.binary(min_size=1, max_size=600))
    def test_any_bytes_are_a_snapshot_or_none(
        self, tmp_path_factory: pytest.TempPathFactory, junk: bytes, at: int, patch: bytes
    ) -> None:
        path = tar(
            tmp_path_factory.getbasetemp() / "any.tar", ("out/a", b"first", {"pax_headers": {"comment": "x"}})
        )
        whole = bytearray(path.read_bytes())
        whole[at : at + len(patch)] = patch
        for data in (junk, bytes(whole)):
            path.write_bytes(data)
            try:
                plan = plan_restore(path, LIMITS)
            except SnapshotError:
                continue
            for file in plan.files:
                assert file.target.parts[2] in {"work", "out"}
                assert ".." not in file.target.parts
                assert file.start + file.size <= len(data)

    def test_a_chain_of_headers_ends(self, tmp_path: Path) -> None:
        header = tarfile.TarInfo("x")
        header.type = tarfile.XHDTYPE
        header.size = 0
        (tmp_path / "s.tar").write_bytes(header.tobuf() * 5000)
        big = replace(LIMITS, bytes=10_000_000)
        with pytest.raises(SnapshotError):
            plan_restore(tmp_path / "s.tar", big)


class TestFolder:
    def test_it_is_made_when_needed_private_and_gone_at_the_end(self, tmp_path: Path) -> None:
        root = tmp_path / "snapshots"
        folder = SnapshotFolder(root)
        folder.sweep()
        assert not root.exists()
        first, second = folder.new_path(), folder.new_path()
        assert first.parent == second.parent
        assert first != second
        assert first.parent.stat().st_mode & 0o777 == 0o700
        first.touch()
        folder.close()
        assert list(root.iterdir()) == []
        folder.close()

    def test_what_a_dead_process_left_goes_and_what_a_living_one_has_stays(self, tmp_path: Path) -> None:
        code = (
            "import os, sys; from pathlib import Path\n"
            "from sandbox_skills.workspace.snapshot_folder import SnapshotFolder\n"
            "folder = SnapshotFolder(Path(sys.argv[1])); folder.new_path().touch(); os._exit(0)"
        )
        subprocess.run([sys.executable, "-c", code, tmp_path], check=True)
        assert len(list(tmp_path.glob("*/*.tar"))) == 1
        (tmp_path / "foreign").touch()
        (tmp_path / "of-somebody-else").mkdir()
        living = SnapshotFolder(tmp_path)
        path = living.new_path()
        path.touch()
        SnapshotFolder(tmp_path).sweep()
        assert list(tmp_path.glob("*/*.tar")) == [path]
        assert {(tmp_path / name).exists() for name in ("foreign", "of-somebody-else")} == {True}
        living.close()

    def test_no_place_for_it_is_an_output_error(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(OutputError):
            SnapshotFolder(tmp_path / "file").new_path()
