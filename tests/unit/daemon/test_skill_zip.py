"""A skill that is sent out as a zip and comes back is the same skill, to the byte and the mode."""

from __future__ import annotations

import os
import zipfile
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.daemon.service.skill_upload import Upload, taken_from
from sandbox_skills.daemon.service.skill_zip import packed
from sandbox_skills.errors import SkillUnsafeError
from sandbox_skills.install.limits import FetchLimits
from sandbox_skills.workspace.paths import open_root
from sandbox_skills.workspace.skill_digest import tree_content
from sandbox_skills.workspace.skill_tree import StageLimits, scan

TEXT = "---\nname: sums\ndescription: Adds numbers.\n---\nRun it.\n"
NAMES = st.text(alphabet="abcü -", min_size=1, max_size=6).filter(lambda name: name.strip())


def digest(folder: Path) -> str:
    with open_root(folder) as root_fd:
        return tree_content(root_fd, scan(root_fd, StageLimits())).digest


def sent_back(folder: Path, data: bytes) -> str:
    incoming = folder / "incoming"
    incoming.mkdir()
    (incoming / "upload").write_bytes(data)
    return taken_from(Upload(incoming / "upload"), incoming, FetchLimits()).content.digest


@given(files=st.dictionaries(NAMES, st.tuples(st.binary(max_size=64), st.booleans()), max_size=5))
def test_what_was_packed_comes_back_as_it_was(files: dict[str, tuple[bytes, bool]]) -> None:
    with TemporaryDirectory() as root:
        folder = Path(root) / "sums"
        folder.mkdir()
        (folder / "SKILL.md").write_text(TEXT, encoding="utf-8")
        (folder / "empty").mkdir()
        (folder / "link").symlink_to("SKILL.md")
        for name, (data, executable) in files.items():
            (folder / f"f{name.casefold()}").write_bytes(data)
            (folder / f"f{name.casefold()}").chmod(0o755 if executable else 0o644)
        assert sent_back(Path(root), b"".join(packed(folder))) == digest(folder)


def test_the_same_content_gives_the_same_bytes_and_pieces_stay_small(tmp_path: Path) -> None:
    folder = tmp_path / "sums"
    folder.mkdir()
    (folder / "SKILL.md").write_text(TEXT, encoding="utf-8")
    (folder / "noise").write_bytes(os.urandom(2_000_000))
    first = list(packed(folder))
    os.utime(folder / "noise", (1, 1))
    assert b"".join(first) == b"".join(packed(folder))
    assert all(first)
    assert max(map(len, first)) < 600_000
    with zipfile.ZipFile(BytesIO(b"".join(first))) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["sums/SKILL.md", "sums/noise"]


def test_a_folder_with_a_link_that_leaves_it_is_not_packed(tmp_path: Path) -> None:
    folder = tmp_path / "sums"
    folder.mkdir()
    (folder / "out").symlink_to("/etc/passwd")
    with pytest.raises(SkillUnsafeError):
        next(packed(folder))
