"""Inputs: everything wrong with them is said before a box starts; what is right arrives byte for byte."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.engines.fake import FakeEngine
from sandbox_skills.errors import (
    InputError,
    PathEscapeError,
    RequestError,
    SandboxLostError,
    WorkspaceFullError,
)
from sandbox_skills.spec import MIB, WORKSPACE, CollectLimits, SandboxLimits, SandboxSpec
from sandbox_skills.workspace import inputs as module
from sandbox_skills.workspace.inputs import CHUNK, Input, plan_inputs, put_inputs, target_of
from sandbox_skills.workspace.outputs import MemorySink

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from sandbox_skills.engines.base import Sandbox
    from sandbox_skills.workspace.inputs import PlannedFile, PlannedInputs

SPEC = SandboxSpec(needs=frozenset())
ROOM = 256 * MIB


def planned(*inputs: Input, room: int = ROOM) -> PlannedInputs:
    return plan_inputs(inputs, max_bytes=room)


def targets(*inputs: Input) -> list[str]:
    return [str(file.target.relative_to(WORKSPACE)) for file in planned(*inputs).files]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A host folder with two files."""
    root = tmp_path / "data"
    (root / "deep").mkdir(parents=True)
    (root / "a.csv").write_bytes(b"a,b\n")
    (root / "deep" / "b.csv").write_bytes(b"c,d\n")
    return root


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with FakeEngine().open(SPEC) as opened:
        yield opened


async def contents(sandbox: Sandbox) -> dict[str, bytes]:
    sink = MemorySink()
    await sandbox.collect(["**"], CollectLimits(files=20_000, file_bytes=ROOM, total_bytes=ROOM), sink)
    return {str(file.path): file.data or b"" for file in sink.files}


class TestTarget:
    @pytest.mark.parametrize(
        ("to", "target"),
        [
            ("", "work/inputs/a.csv"),
            ("  ", "work/inputs/a.csv"),
            (".", "work/inputs/a.csv"),
            ("./", "work/inputs/a.csv"),
            ("inputs", "work/inputs/a.csv"),
            ("inputs/", "work/inputs/a.csv"),
            ("inputs/x.csv", "work/inputs/x.csv"),
            ("./inputs/x.csv", "work/inputs/x.csv"),
            ("/workspace/inputs/x.csv", "work/inputs/x.csv"),
            ("inputs/sub/", "work/inputs/sub/a.csv"),
            ("inputs/../x.csv", "x.csv"),
            ("inputs_of_mine/x.csv", "inputs_of_mine/x.csv"),
            ("work/x.csv", "work/x.csv"),
            ("work/sub/", "work/sub/a.csv"),
            ("work", "work/a.csv"),
            ("out", "out/a.csv"),
            ("work/inputs", "work/inputs/a.csv"),
            ("$WORK_DIR/x.csv", "work/x.csv"),
            ("${WORK_DIR}/x.csv", "work/x.csv"),
            ("$WORK_DIR", "work/a.csv"),
            ("$OUTPUT_DIR/", "out/a.csv"),
            ("$WORKSPACE_DIR", "a.csv"),
            ("$WORKSPACE_DIR/inputs/x.csv", "work/inputs/x.csv"),
            ("/workspace/work/x.csv", "work/x.csv"),
            ("$HOME/x.csv", "$HOME/x.csv"),
            ("work/\N{SNOWMAN} x\n.csv", "work/\N{SNOWMAN} x\n.csv"),
        ],
    )
    def test_each_way_to_say_it(self, to: str, target: str) -> None:
        assert str(target_of(Input(Path("/host/a.csv"), to))) == f"/workspace/{target}"

    @pytest.mark.parametrize(
        "to",
        ["..", "../x", "inputs/../../x", "/etc/passwd", "/", "$WORK_DIR/../../x", "a\\b", "x\0", "/work/x"],
    )
    def test_what_leaves_the_workspace_is_refused(self, to: str) -> None:
        with pytest.raises(PathEscapeError):
            target_of(Input(Path("a.csv"), to))

    @pytest.mark.parametrize(
        "to", ["skills", "skills/", "skills/x/SKILL.md", "$SKILLS_DIR/x", "work/../skills/x"]
    )
    def test_the_place_of_skills_is_no_place_for_inputs(self, to: str) -> None:
        with pytest.raises(InputError, match="is for skills"):
            target_of(Input(Path("a.csv"), to))

    def test_a_source_called_skills_is_no_way_around(self) -> None:
        with pytest.raises(InputError, match="is for skills"):
            target_of(Input(Path("/host/skills"), "$WORKSPACE_DIR"))

    @pytest.mark.parametrize("source", [".", "..", "../data", "deep/.."])
    def test_a_source_that_goes_up_has_the_name_it_has(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, source: str
    ) -> None:
        monkeypatch.chdir(folder / "deep" if source == ".." else folder)
        assert target_of(Input(Path(source))) == WORKSPACE / "work/inputs/data"

    def test_the_root_of_the_host_has_no_name(self) -> None:
        assert target_of(Input(Path("/"))) == WORKSPACE / "work/inputs/input"

    @given(st.text())
    def test_any_text_is_a_place_inside_or_an_error(self, to: str) -> None:
        try:
            target = target_of(Input(Path("/host/a.csv"), to))
        except RequestError:
            return
        assert target.is_relative_to(WORKSPACE)
        assert ".." not in target.parts
        assert target != WORKSPACE


class TestPlan:
    def test_a_file_is_one_file(self, folder: Path) -> None:
        (folder / "a.csv").chmod(0o750)
        (file,) = planned(Input(folder / "a.csv")).files
        assert (str(file.target), file.size, file.mode) == ("/workspace/work/inputs/a.csv", 4, 0o755)

    def test_a_folder_is_its_files(self, folder: Path) -> None:
        assert targets(Input(folder)) == ["work/inputs/data/a.csv", "work/inputs/data/deep/b.csv"]
        assert targets(Input(folder, "work/x")) == ["work/x/a.csv", "work/x/deep/b.csv"]

    def test_a_named_link_is_followed_and_keeps_its_name(self, folder: Path, tmp_path: Path) -> None:
        (tmp_path / "latest").symlink_to(folder)
        (tmp_path / "newest.csv").symlink_to(folder / "a.csv")
        assert targets(Input(tmp_path / "latest")) == [
            "work/inputs/latest/a.csv",
            "work/inputs/latest/deep/b.csv",
        ]
        assert targets(Input(tmp_path / "newest.csv")) == ["work/inputs/newest.csv"]

    def test_links_and_special_files_of_a_folder_are_left_out_and_said(self, folder: Path) -> None:
        (folder / "to_file").symlink_to("/etc/passwd")
        (folder / "to_folder").symlink_to("/etc")
        (folder / "to_nothing").symlink_to("nothing")
        os.mkfifo(folder / "deep" / "fifo")
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(folder / "socket"))
            plan = planned(Input(folder))
        assert [file.target.name for file in plan.files] == ["a.csv", "b.csv"]
        assert plan.notes == (f"5 links and special files of input '{folder}' were left out",)

    def test_a_folder_without_files_is_said(self, tmp_path: Path) -> None:
        (tmp_path / "empty" / "er").mkdir(parents=True)
        plan = planned(Input(tmp_path / "empty"))
        assert (plan.files, plan.notes) == ((), (f"input '{tmp_path}/empty' has no files",))

    @pytest.mark.parametrize(
        ("name", "reason"),
        [
            ("missing", "No such file"),
            ("missing/below", "No such"),
            ("loop", "[Ll]oop|links"),
            ("x\0", "null"),
        ],
    )
    def test_a_source_that_is_not_there_is_refused(self, tmp_path: Path, name: str, reason: str) -> None:
        (tmp_path / "loop").symlink_to("loop")
        with pytest.raises(InputError, match=f"cannot be read: .*({reason})"):
            planned(Input(tmp_path / name))

    @pytest.mark.parametrize("name", ["fifo", "/dev/null"])
    def test_a_source_that_is_no_file_is_refused(self, tmp_path: Path, name: str) -> None:
        os.mkfifo(tmp_path / "fifo")
        with pytest.raises(InputError, match="neither a file nor a folder"):
            planned(Input(tmp_path / name))

    def test_what_cannot_be_read_is_refused(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            root = Path(name)
            root.chmod(0o755)
            (root / "file").touch(0o000)
            (root / "closed").mkdir(0o000)
            (root / "folder" / "closed").mkdir(0o000, parents=True)
            before = os.geteuid()
            os.seteuid(65534 if before == 0 else before)
            try:
                for source in ("file", "closed", "folder"):
                    with pytest.raises(InputError, match="cannot be read: Permission denied"):
                        planned(Input(root / source))
            finally:
                os.seteuid(before)
                (root / "folder" / "closed").chmod(0o700)

    @pytest.mark.parametrize("name", [b"back\\slash", b"latin\xe9"])
    def test_a_name_that_the_path_rule_refuses_is_said(self, folder: Path, name: bytes) -> None:
        (folder / os.fsdecode(name)).touch()
        with pytest.raises(PathEscapeError):
            planned(Input(folder))

    def test_more_bytes_than_the_workspace_has_are_refused(self, folder: Path) -> None:
        assert len(planned(Input(folder), room=8).files) == 2
        with pytest.raises(InputError, match="more than") as raised:
            planned(Input(folder), room=7)
        assert raised.value.hint
        with (folder / "sparse").open("wb") as file:
            file.truncate(ROOM + 1)
        with pytest.raises(InputError, match="256 MiB"):
            planned(Input(folder / "sparse"))

    def test_more_files_than_the_limit_are_refused_without_looking_at_them_all(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "MAX_INPUT_FILES", 2)
        assert len(planned(Input(folder)).files) == 2
        (folder / "c.csv").touch()
        (folder / "deep" / "bad\\name").touch()
        with pytest.raises(InputError, match="more than 2 files"):
            planned(Input(folder))

    def test_ten_thousand_files_are_planned_in_a_moment(self, tmp_path: Path) -> None:
        for index in range(100):
            (tmp_path / "many" / str(index)).mkdir(parents=True)
            for name in range(100):
                (tmp_path / "many" / str(index) / str(name)).touch()
        started = time.process_time()
        assert len(planned(Input(tmp_path / "many")).files) == 10_000
        assert time.process_time() - started < 4  # 0.4 s on a quiet machine

    def test_a_folder_deeper_than_any_path_is_refused(self, tmp_path: Path) -> None:
        top = tmp_path / "deep"
        top.mkdir()
        here = os.open(top, os.O_RDONLY)
        for _ in range(1500):
            os.mkdir("deeper", dir_fd=here)
            below = os.open("deeper", os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        os.close(here)
        try:
            with pytest.raises(InputError, match="File name too long"):
                planned(Input(top))
        finally:
            subprocess.run(["rm", "-rf", top], check=True)  # shutil and pytest go down by recursion

    def test_a_file_that_goes_while_it_is_looked_at_is_said(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        entries = module._entries

        def late(path: Path) -> Iterator[os.DirEntry[str]]:
            for entry in entries(path):
                Path(entry.path).unlink()
                yield entry

        monkeypatch.setattr(module, "_entries", late)
        with pytest.raises(InputError, match=r"a\.csv' cannot be read: No such file"):
            planned(Input(folder))

    def test_two_inputs_never_become_one_file(self, folder: Path, tmp_path: Path) -> None:
        (tmp_path / "a.csv").touch()
        with pytest.raises(InputError, match=r"two inputs are to be /workspace/work/inputs/a\.csv"):
            planned(Input(folder / "a.csv"), Input(tmp_path / "a.csv"))
        assert len(planned(Input(folder / "a.csv"), Input(tmp_path / "a.csv", "inputs/b.csv")).files) == 2

    def test_one_input_is_never_the_folder_of_another(self, folder: Path) -> None:
        with pytest.raises(InputError, match="is to lie below it"):
            planned(Input(folder / "a.csv", "work/x"), Input(folder, "work/x/y"))


@pytest.mark.anyio
class TestPut:
    @pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 7])
    async def test_every_byte_arrives(self, sandbox: Sandbox, tmp_path: Path, size: int) -> None:
        data = os.urandom(size)
        (tmp_path / "x").write_bytes(data)
        await put_inputs(sandbox, planned(Input(tmp_path / "x")).files)
        assert await contents(sandbox) == {"work/inputs/x": data}

    async def test_a_folder_arrives_whole(self, sandbox: Sandbox, tmp_path: Path) -> None:
        expected = {f"work/inputs/many/{i % 7}/{i}": f"{i}".encode() for i in range(100)}
        for path, data in expected.items():
            file = tmp_path / PurePosixPath(path).relative_to("work/inputs")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        await put_inputs(sandbox, planned(Input(tmp_path / "many")).files)
        assert await contents(sandbox) == expected

    async def test_a_file_that_grew_is_put_as_it_was_planned(self, sandbox: Sandbox, folder: Path) -> None:
        files = planned(Input(folder / "a.csv")).files
        with (folder / "a.csv").open("ab") as file:
            file.write(b"more")
        await put_inputs(sandbox, files)
        assert await contents(sandbox) == {"work/inputs/a.csv": b"a,b\n"}

    async def test_a_file_that_shrank_is_put_as_it_is(self, sandbox: Sandbox, tmp_path: Path) -> None:
        (tmp_path / "x").write_bytes(bytes(3 * CHUNK))
        files = planned(Input(tmp_path / "x")).files
        os.truncate(tmp_path / "x", CHUNK + 1)
        await put_inputs(sandbox, files)
        assert await contents(sandbox) == {"work/inputs/x": bytes(CHUNK + 1)}

    @pytest.mark.parametrize("swap", ["gone", "link", "fifo", "folder", "link_above"])
    async def test_a_file_that_became_something_else_is_refused(
        self, sandbox: Sandbox, folder: Path, swap: str
    ) -> None:
        files = planned(Input(folder)).files
        shutil.rmtree(folder / "deep") if swap == "link_above" else (folder / "deep" / "b.csv").unlink()
        match swap:
            case "link":
                (folder / "deep" / "b.csv").symlink_to("/etc/passwd")
            case "link_above":
                (folder / "deep").symlink_to("/etc")
            case "fifo":
                os.mkfifo(folder / "deep" / "b.csv")
            case "folder":
                (folder / "deep" / "b.csv").mkdir()
            case _:
                pass
        with pytest.raises((InputError, PathEscapeError)):
            await put_inputs(sandbox, files)

    async def test_a_workspace_that_is_full_is_said_as_such(self, tmp_path: Path) -> None:
        for name in "abcdefghij":
            (tmp_path / name).write_bytes(bytes(MIB))
        files = planned(Input(tmp_path, "work/x")).files
        spec = SandboxSpec(needs=frozenset(), limits=SandboxLimits(workspace_bytes=5 * MIB))
        async with FakeEngine().open(spec) as sandbox:
            with pytest.raises(WorkspaceFullError):
                await put_inputs(sandbox, files)

    async def test_a_lost_box_is_said_as_such(self, folder: Path) -> None:
        async with FakeEngine().open(SPEC) as sandbox:
            pass
        with pytest.raises(SandboxLostError):
            await put_inputs(sandbox, planned(Input(folder)).files)

    async def test_no_inputs_are_no_work(self, sandbox: Sandbox) -> None:
        nothing: tuple[PlannedFile, ...] = ()
        await put_inputs(sandbox, nothing)
        assert await contents(sandbox) == {}
