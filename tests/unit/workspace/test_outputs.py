"""What lands on the host: whole files, below the directory that was named, through no link."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.errors import OutputError, PathEscapeError, RunnerProtocolError
from sandbox_skills.spec import Collection, CollectLimits, FoundFile
from sandbox_skills.workspace.outputs import DirectorySink, check_out_dir, collect_outputs
from sandbox_skills.workspace.paths import MAX_NAME_BYTES, name_fault

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from sandbox_skills.engines.base import FileSink, Sandbox

LIMITS = CollectLimits()


def found(path: str, data: bytes = b"new", mode: int = 0o644, *, truncated: bool = False) -> FoundFile:
    return FoundFile(path, len(data), mode, truncated=truncated)


def give(sink: FileSink, path: str, data: bytes = b"new", mode: int = 0o644) -> None:
    sink.begin(found(path, data, mode))
    sink.write(data)
    sink.end()


def save(out: Path, path: str, data: bytes = b"new", mode: int = 0o644) -> Path:
    with DirectorySink(out) as sink:
        give(sink, path, data, mode)
        (file,) = sink.files
    assert file.saved is not None
    return file.saved


def left(out: Path, path: str, data: bytes = b"new", *, overwrite: bool) -> dict[str, str]:
    """Tries to save one file; returns what was left, with the reason."""
    with DirectorySink(out, overwrite=overwrite) as sink:
        give(sink, path, data)
        assert bool(sink.files) != bool(sink.left)
    return sink.left


def saved_beside(out: Path, path: str, data: bytes = b"new") -> dict[str, str]:
    """Saves a file without overwriting; returns what was left."""
    return left(out, path, data, overwrite=False)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def open_descriptors() -> int:
    return len(names(Path("/proc/self/fd")))


def tree(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


class TestSaving:
    def test_a_file_lies_at_its_path_in_the_workspace(self, out: Path) -> None:
        saved = save(out, "out/deep/a.txt", b"hello")
        assert saved == out / "out/deep/a.txt"
        assert (saved.read_bytes(), tree(out)) == (b"hello", ["out", "out/deep", "out/deep/a.txt"])

    def test_the_directory_is_made_when_the_first_file_comes(self, tmp_path: Path) -> None:
        with DirectorySink(tmp_path / "a" / "b") as sink:
            assert tree(tmp_path) == []
            give(sink, "x")
        assert tree(tmp_path) == ["a", "a/b", "a/b/x"]

    def test_a_file_that_is_there_is_replaced_and_its_old_bytes_stay_with_who_has_it_open(
        self, out: Path
    ) -> None:
        old = out / "a.txt"
        old.write_bytes(b"old and longer")
        with old.open("rb") as reader:
            save(out, "a.txt", b"new")
            assert (old.read_bytes(), reader.read()) == (b"new", b"old and longer")

    @pytest.mark.parametrize("mode", [0o644, 0o600, 0o755, 0o100, 0o777])
    def test_no_file_is_executable_here_and_all_else_is_the_umasks(self, out: Path, mode: int) -> None:
        before = os.umask(0o027)
        try:
            with DirectorySink(out) as sink:
                give(sink, "bin/tool", mode=mode)
        finally:
            os.umask(before)
        assert (out / "bin/tool").stat().st_mode & 0o7777 == 0o640
        assert (out / "bin").stat().st_mode & 0o7777 == 0o750
        assert sink.files[0].as_dict()["executable"] == bool(mode & 0o100)

    def test_many_writes_and_none_are_files_too(self, out: Path) -> None:
        with DirectorySink(out) as sink:
            sink.begin(found("many"))
            for _ in range(100):
                sink.write(b"x" * 1000)
            sink.end()
            sink.begin(found("empty", b""))
            sink.end()
        assert ((out / "many").stat().st_size, (out / "empty").stat().st_size) == (100_000, 0)

    @given(
        st.lists(
            st.text(
                st.characters(blacklist_categories=["Cs"], blacklist_characters="/\\\0"), min_size=1
            ).filter(lambda name: not name_fault(name)),
            min_size=1,
            max_size=3,
        )
    )
    def test_any_name_of_the_path_rule_is_saved_as_it_is(self, parts: list[str]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            saved = save(Path(folder), "/".join(parts))
            assert saved.read_bytes() == b"new"
            assert tree(Path(folder)) == sorted("/".join(parts[:end]) for end in range(1, len(parts) + 1))

    @pytest.mark.parametrize(
        "name", ["-rf", "a\nb", "\x1b[31m", "~", "$HOME", "*", " ", "...", "ünï", "x" * MAX_NAME_BYTES]
    )
    def test_odd_names_are_names(self, out: Path, name: str) -> None:
        save(out, name)
        assert names(out) == [name]


class TestLinks:
    @pytest.fixture
    def elsewhere(self, tmp_path: Path) -> Path:
        folder = tmp_path / "elsewhere"
        folder.mkdir()
        (folder / "secret").write_bytes(b"untouched")
        return folder

    def test_a_link_in_place_of_a_file_is_replaced_and_not_followed(self, out: Path, elsewhere: Path) -> None:
        (out / "a").symlink_to(elsewhere / "secret")
        (out / "b").symlink_to(elsewhere / "not-there-yet")
        save(out, "a")
        save(out, "b")
        assert not (out / "a").is_symlink()
        assert ((out / "a").read_bytes(), (out / "b").read_bytes()) == (b"new", b"new")
        assert (tree(elsewhere), (elsewhere / "secret").read_bytes()) == (["secret"], b"untouched")

    @pytest.mark.parametrize("overwrite", [True, False])
    @pytest.mark.parametrize(
        ("path", "link"), [("d/a", "d"), ("d/deep/a", "d"), ("real/d/a", "real/d"), ("gone/a", "gone")]
    )
    def test_a_link_in_place_of_a_directory_is_not_followed_and_told(
        self, out: Path, elsewhere: Path, path: str, link: str, *, overwrite: bool
    ) -> None:
        (out / "real").mkdir()
        (out / "d").symlink_to(elsewhere)
        (out / "gone").symlink_to(elsewhere / "gone")
        (out / "real" / "d").symlink_to(out)
        assert left(out, path, overwrite=overwrite) == {path: f"link in the way: {out / link}"}
        assert (tree(elsewhere), names(out)) == (["secret"], ["d", "gone", "real"])

    def test_a_directory_swapped_for_a_link_meanwhile_leads_nowhere(self, out: Path, elsewhere: Path) -> None:
        with DirectorySink(out) as sink:
            sink.begin(found("d/secret"))
            (out / "d").rename(out / "moved")
            (out / "d").symlink_to(elsewhere)
            sink.write(b"new")
            sink.end()
            give(sink, "d/other")
        assert sink.left == {"d/other": f"link in the way: {out / 'd'}"}
        assert (tree(elsewhere), (elsewhere / "secret").read_bytes()) == (["secret"], b"untouched")
        assert names(out / "moved") == ["secret"]

    def test_the_whole_directory_swapped_meanwhile_leads_nowhere(self, out: Path, elsewhere: Path) -> None:
        with DirectorySink(out) as sink:
            give(sink, "a")
            out.rename(out.parent / "moved")
            out.symlink_to(elsewhere)
            give(sink, "secret")
            sink.begin(found("partial"))
        assert (elsewhere / "secret").read_bytes() == b"untouched"
        assert tree(out.parent / "moved") == ["a", "secret"]

    def test_the_directory_itself_may_be_a_link_for_the_caller_named_it(
        self, tmp_path: Path, out: Path
    ) -> None:
        (tmp_path / "latest").symlink_to(out)
        save(tmp_path / "latest", "a")
        assert tree(out) == ["a"]

    def test_what_is_no_file_is_replaced_without_being_opened(self, out: Path) -> None:
        os.mkfifo(out / "fifo")
        save(out, "fifo")
        assert (out / "fifo").is_file()

    @pytest.mark.parametrize("path", ["../a", "d/../../a"])
    def test_a_path_that_leaves_is_refused(self, out: Path, path: str) -> None:
        with pytest.raises((PathEscapeError, OutputError)):
            save(out, path)
        assert names(out.parent) == ["out"]


class TestFaults:
    @pytest.mark.parametrize("overwrite", [True, False])
    def test_a_directory_is_not_replaced_by_a_file(self, out: Path, *, overwrite: bool) -> None:
        (out / "a" / "kept").mkdir(parents=True)
        assert left(out, "a", overwrite=overwrite) == {"a": f"directory in the way: {out / 'a'}"}
        assert tree(out) == ["a", "a/kept"]

    @pytest.mark.parametrize("overwrite", [True, False])
    def test_a_file_is_not_replaced_by_a_directory(self, out: Path, *, overwrite: bool) -> None:
        (out / "a").write_bytes(b"old")
        assert left(out, "a/b/c", overwrite=overwrite) == {"a/b/c": f"file in the way: {out / 'a'}"}
        assert (out / "a").read_bytes() == b"old"

    def test_a_file_that_cannot_be_saved_costs_no_other(self, out: Path) -> None:
        (out / "b").mkdir()
        descriptors = open_descriptors()
        with DirectorySink(out, overwrite=False) as sink:
            for name in ("a", "b", "a/below", "c"):
                give(sink, name)
        assert [str(file.path) for file in sink.files] == ["a", "c"]
        assert set(sink.left) == {"b", "a/below"}
        assert open_descriptors() == descriptors

    @pytest.mark.parametrize("code", [errno.EINVAL, errno.EILSEQ, errno.ENAMETOOLONG])
    def test_a_name_that_this_file_system_cannot_have_is_left_out(
        self, out: Path, monkeypatch: pytest.MonkeyPatch, code: int
    ) -> None:
        def refuse(*_names: object, **_options: object) -> None:
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(os, "link", refuse)
        assert left(out, "a:b", overwrite=False) == {"a:b": "name"}
        assert tree(out) == []

    @pytest.mark.parametrize("there", [True, False])
    def test_without_second_names_a_file_that_is_there_stays_too(
        self, out: Path, monkeypatch: pytest.MonkeyPatch, *, there: bool
    ) -> None:
        def refuse(*_names: object, **_options: object) -> None:
            raise PermissionError(errno.EPERM, "Operation not permitted")

        monkeypatch.setattr(os, "link", refuse)
        if there:
            (out / "a").write_bytes(b"old")
        with DirectorySink(out, overwrite=False) as sink:
            give(sink, "a")
        assert (out / "a").read_bytes() == (b"old" if there else b"new")
        assert sink.left == ({"a": "exists"} if there else {})
        assert tree(out) == ["a"]

    @pytest.mark.parametrize("overwrite", [True, False])
    @pytest.mark.parametrize("path", [".git/config", "out/.git/hooks/pre-commit", "out/.git", "a/.GIT/x"])
    def test_nothing_is_ever_saved_into_a_git_directory(
        self, out: Path, path: str, *, overwrite: bool
    ) -> None:
        assert left(out, path, overwrite=overwrite) == {path: "git"}
        assert tree(out) == []

    def test_other_names_that_begin_with_git_are_names(self, out: Path) -> None:
        for path in (".gitignore", ".github/workflow.yml", "git/config", "a.git/HEAD"):
            assert save(out, path).is_file()

    def test_a_directory_that_cannot_be_made_is_said(self, out: Path) -> None:
        (out / "file").touch()
        with pytest.raises(OutputError, match="Not a directory"):
            save(out / "file" / "below", "a")

    def test_a_directory_that_is_gone_is_said(self, out: Path) -> None:
        with DirectorySink(out) as sink:
            give(sink, "a")
            shutil.rmtree(out)
            with pytest.raises(OutputError, match="No such file"):
                give(sink, "b")

    @pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
    def test_a_disk_that_takes_no_more_is_said_and_no_part_is_left(
        self, out: Path, monkeypatch: pytest.MonkeyPatch, code: int
    ) -> None:
        def full(descriptor: int, data: bytes) -> int:
            raise OSError(code, os.strerror(code))

        with DirectorySink(out) as sink:
            give(sink, "whole")
            sink.begin(found("partial"))
            with monkeypatch.context() as patch:
                patch.setattr(os, "write", full)
                with pytest.raises(OutputError, match=os.strerror(code)):
                    sink.write(b"data")
        assert names(out) == ["whole"]

    def test_a_short_write_is_continued(self, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write = os.write
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", lambda descriptor, data: write(descriptor, bytes(data)[:2]))
            save(out, "a", b"hello")
        assert (out / "a").read_bytes() == b"hello"

    @pytest.mark.parametrize("parts", [0, 1])
    def test_a_file_that_never_became_whole_leaves_nothing(self, out: Path, parts: int) -> None:
        descriptors = open_descriptors()
        (out / "a").write_bytes(b"old")
        with DirectorySink(out) as sink:
            sink.begin(found("a"))
            for _ in range(parts):
                sink.write(b"half")
        assert (tree(out), (out / "a").read_bytes()) == (["a"], b"old")
        assert open_descriptors() == descriptors

    def test_a_part_that_somebody_removed_is_no_fault(self, out: Path) -> None:
        with DirectorySink(out) as sink:
            sink.begin(found("a"))
            next(out.glob(".*.partial")).unlink()
        assert tree(out) == []


@contextmanager
def nobody() -> Iterator[Path]:
    """A directory that can be read, and this process as a user who may not write it."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o555)
        before = os.geteuid()
        os.seteuid(65534 if before == 0 else before)
        try:
            yield Path(folder)
        finally:
            os.seteuid(before)


class TestCheckingAhead:
    def test_a_directory_that_can_be_made_or_written_is_fine(self, out: Path) -> None:
        check_out_dir(out)
        check_out_dir(out / "a" / "b")
        assert tree(out) == []

    @pytest.mark.parametrize("path", ["file", "file/below", "dangling"])
    def test_what_is_no_directory_is_refused(self, out: Path, path: str) -> None:
        (out / "file").touch()
        (out / "dangling").symlink_to("nothing")
        with pytest.raises(OutputError, match="is not a directory"):
            check_out_dir(out / path)

    @pytest.mark.parametrize("path", ["", "below"])
    def test_what_may_not_be_written_is_refused(self, path: str) -> None:
        with nobody() as folder:
            with pytest.raises(OutputError, match="cannot be written"):
                check_out_dir(folder / path)
            with pytest.raises(OutputError, match="Permission denied"):
                save(folder / path, "a")

    def test_a_relative_one_is_read_from_here(self, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(out)
        check_out_dir(Path("a"))
        (out / "file").touch()
        with pytest.raises(OutputError):
            check_out_dir(Path("file"))


class Box:
    """A sandbox that can only collect, as a test tells it to."""

    def __init__(self, collect: Callable[[FileSink], Awaitable[Collection]]) -> None:
        self._collect = collect

    async def collect(self, patterns: Sequence[str], limits: CollectLimits, sink: FileSink) -> Collection:
        return await self._collect(sink)


def box(collect: Callable[[FileSink], Awaitable[Collection]]) -> Sandbox:
    return cast("Sandbox", Box(collect))


@pytest.mark.anyio
class TestCollecting:
    async def test_a_cancel_leaves_no_part(self, out: Path) -> None:
        async def endless(sink: FileSink) -> Collection:
            give(sink, "whole")
            sink.begin(found("partial"))
            sink.write(b"half")
            await anyio.sleep_forever()
            raise AssertionError

        with anyio.move_on_after(0.05) as scope:
            await collect_outputs(box(endless), ["*"], LIMITS, out)
        assert scope.cancelled_caught
        assert tree(out) == ["whole"]

    async def test_a_box_that_breaks_its_word_leaves_no_part(self, out: Path) -> None:
        async def liar(sink: FileSink) -> Collection:
            sink.begin(found("a"))
            raise RunnerProtocolError("more than it announced")

        with pytest.raises(RunnerProtocolError):
            await collect_outputs(box(liar), ["*"], LIMITS, out)
        assert tree(out) == []

    @pytest.mark.parametrize("saved", [True, False])
    async def test_a_name_that_is_none_here_is_left_out_and_told(self, out: Path, saved: bool) -> None:  # noqa: FBT001  # a parameter of the test
        async def odd(sink: FileSink) -> Collection:
            for name in ("a\\b", "d\\/x", "fine"):
                give(sink, name)
            files = (found("a\\b"), found("d\\/x"), found("fine"))
            return Collection(files, skipped={"link": "link"})

        files, collection = await collect_outputs(box(odd), ["*"], LIMITS, out if saved else None)
        assert [str(file.path) for file in files] == ["fine"]
        assert collection.skipped == {"link": "link", "a\\b": "name", "d\\/x": "name"}
        assert tree(out) == (["fine"] if saved else [])

    @pytest.mark.parametrize("saved", [True, False])
    async def test_a_file_that_shrank_while_it_was_read_is_told_as_cut(self, out: Path, saved: bool) -> None:  # noqa: FBT001  # a parameter of the test
        async def shrinking(sink: FileSink) -> Collection:
            give(sink, "a")
            give(sink, "b")
            return Collection((found("a", truncated=True), found("b")))

        files, _ = await collect_outputs(box(shrinking), ["*"], LIMITS, out if saved else None)
        assert [(str(file.path), file.truncated) for file in files] == [("a", True), ("b", False)]

    async def test_without_a_directory_the_bytes_are_in_memory(self) -> None:
        async def one(sink: FileSink) -> Collection:
            give(sink, "out/a", b"hello")
            return Collection((found("out/a"),))

        files, _ = await collect_outputs(box(one), ["*"], LIMITS, None)
        assert [(file.data, file.saved) for file in files] == [(b"hello", None)]
        assert files[0].as_dict() == {
            "path": "out/a",
            "size": 5,
            "truncated": False,
            "executable": False,
            "saved": None,
        }


def test_without_overwriting_a_new_file_and_the_same_once_more_are_saved(tmp_path: Path) -> None:
    assert saved_beside(tmp_path, "out/a") == {}
    assert saved_beside(tmp_path, "out/a") == {}
    assert tree(tmp_path) == ["out", "out/a"]


@pytest.mark.parametrize("there", [b"", b"old", b"newer"])
def test_without_overwriting_a_file_that_differs_stays(tmp_path: Path, there: bytes) -> None:
    (tmp_path / "a").write_bytes(there)
    assert saved_beside(tmp_path, "a") == {"a": "exists"}
    assert (tmp_path / "a").read_bytes() == there
    assert tree(tmp_path) == ["a"]


def test_without_overwriting_nothing_else_of_that_name_is_touched(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"new")
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    before = tree(tmp_path)
    for name in ("link", "dangling", "pipe"):
        assert saved_beside(tmp_path, name) == {name: "exists"}
    assert saved_beside(tmp_path, "folder") == {"folder": f"directory in the way: {tmp_path}/folder"}
    assert tree(tmp_path) == before
    assert (tmp_path / "link").is_symlink()


@given(old=st.binary(max_size=8), new=st.binary(max_size=8))
def test_only_the_very_same_bytes_are_the_same_file(
    tmp_path_factory: pytest.TempPathFactory, old: bytes, new: bytes
) -> None:
    folder = tmp_path_factory.mktemp("out")
    (folder / "a").write_bytes(old)
    assert (saved_beside(folder, "a", new) == {}) == (old == new)
