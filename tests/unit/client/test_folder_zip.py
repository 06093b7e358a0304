"""What of a folder is packed, and that nothing else is."""

from __future__ import annotations

import os
import zipfile
from io import BytesIO
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.client import folder_zip
from sandbox_skills.client.folder_zip import write_zip
from sandbox_skills.errors import InputError, SkillUnsafeError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "hello"
    (made / "scripts").mkdir(parents=True)
    (made / "SKILL.md").write_text("---\nname: hello\n---\n")
    (made / "scripts/run.sh").write_text("#!/bin/sh\n")
    (made / "scripts/run.sh").chmod(0o700)
    return made


def packed(folder: Path) -> zipfile.ZipFile:
    target = BytesIO()
    assert write_zip(folder, target) == folder.resolve().name
    return zipfile.ZipFile(target)


def test_files_are_packed_with_their_modes_and_no_times(folder: Path) -> None:
    (folder / ".git").mkdir()
    (folder / ".git/config").write_text("secret")
    (folder / "scripts/__pycache__").mkdir()
    (folder / "scripts/__pycache__/x.pyc").write_bytes(b"x")
    (folder / "grüße.txt").write_text("ü")
    with packed(folder) as archive:
        assert archive.namelist() == ["hello/SKILL.md", "hello/grüße.txt", "hello/scripts/run.sh"]
        modes = {one.filename: one.external_attr >> 16 & 0o777 for one in archive.infolist()}
        assert modes == {"hello/SKILL.md": 0o644, "hello/grüße.txt": 0o644, "hello/scripts/run.sh": 0o755}
        assert archive.read("hello/scripts/run.sh") == b"#!/bin/sh\n"
    one, other = BytesIO(), BytesIO()
    write_zip(folder, one)
    os.utime(folder / "SKILL.md", (1, 1))
    write_zip(folder, other)
    assert one.getvalue() == other.getvalue()


@pytest.mark.parametrize("target", ["/etc/passwd", "scripts/run.sh", "scripts", "nowhere"])
def test_a_link_is_never_followed_nor_packed(folder: Path, target: str) -> None:
    (folder / "link").symlink_to(target)
    with pytest.raises(SkillUnsafeError, match="link is a link") as caught:
        packed(folder)
    assert "put the file itself there" in caught.value.hint


def test_a_fifo_is_no_file(folder: Path) -> None:
    os.mkfifo(folder / "scripts/pipe")
    with pytest.raises(SkillUnsafeError, match="scripts/pipe is no regular file"):
        packed(folder)


def test_a_name_that_is_no_text_is_told(folder: Path) -> None:
    (folder / os.fsdecode(b"\xff")).write_text("x")
    with pytest.raises(SkillUnsafeError, match="is no UTF-8 name"):
        packed(folder)


def test_a_folder_that_is_named_by_a_link_is_the_folder(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "named").symlink_to(folder)
    with packed(tmp_path / "named") as archive:
        assert "hello/SKILL.md" in archive.namelist()


def test_what_is_no_skill_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no folder"):
        packed(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"it has no SKILL\.md"):
        packed(tmp_path)


def test_too_much_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_zip, "MAX_BYTES", 20)
    with pytest.raises(SkillUnsafeError, match="more than"):
        packed(folder)
    monkeypatch.undo()
    monkeypatch.setattr(folder_zip, "MAX_FILES", 1)
    with pytest.raises(SkillUnsafeError, match="more than 1 files"):
        packed(folder)
