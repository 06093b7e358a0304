"""A skill's own files: listed, read in pages, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandbox_skills.catalog import (
    SkillResources,
    SkillSpec,
    list_skill_resources,
    plain,
    read_skill_resource,
    resources,
)
from sandbox_skills.errors import InputError, PathEscapeError, SkillLoadError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def skill(tmp_path: Path) -> SkillSpec:
    root = tmp_path / "sums"
    for name in (
        "SKILL.md",
        "LICENSE",
        "scripts/b.py",
        "scripts/a.py",
        "scripts/lib/deep.py",
        "references/r.md",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"content of {name}")
    (tmp_path / "secret").write_text("secret")
    return SkillSpec(id="sums", name="sums", description="d", path=str(root / "SKILL.md"), dir=str(root))


def test_files_are_listed_one_level_deep_by_their_place(skill: SkillSpec) -> None:
    listed = list_skill_resources(skill)
    assert listed == SkillResources(("a.py", "b.py"), ("r.md",), (), ("LICENSE",))
    assert listed


def test_a_skill_of_one_file_has_no_resources(tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").write_text("")
    spec = SkillSpec(id="x", name="x", description="d", path=str(tmp_path / "SKILL.md"), dir=str(tmp_path))
    assert not list_skill_resources(spec)


def test_a_skill_that_has_gone_is_said_to_have(skill: SkillSpec) -> None:
    shutil.rmtree(skill.dir)
    with pytest.raises(SkillLoadError):
        list_skill_resources(skill)


def test_a_long_listing_is_cut_and_said_to_be(skill: SkillSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "MAX_LISTED", 1)
    listed = list_skill_resources(skill)
    assert (listed.scripts, listed.truncated) == (("a.py",), True)


def test_only_links_that_stay_are_listed(skill: SkillSpec, tmp_path: Path) -> None:
    scripts = tmp_path / "sums/scripts"
    (scripts / "in.py").symlink_to("a.py")
    (scripts / "out.py").symlink_to(tmp_path / "secret")
    (scripts / "gone.py").symlink_to("nothing")
    (tmp_path / "sums/assets").symlink_to("scripts")
    listed = list_skill_resources(skill)
    assert (listed.scripts, listed.assets) == (("a.py", "b.py", "in.py"), ())


def test_a_file_is_read_whole(skill: SkillSpec) -> None:
    page = read_skill_resource(skill, "scripts/lib/../lib/deep.py".replace("lib/../", ""))
    assert (page.text, page.offset, page.size, page.next_offset) == (
        "content of scripts/lib/deep.py",
        0,
        30,
        None,
    )


def test_pages_join_to_the_file_and_never_split_a_character(skill: SkillSpec, tmp_path: Path) -> None:
    text = "aé€😀" * 50
    (tmp_path / "sums/u.txt").write_text(text)
    read, offset = "", 0
    while offset is not None:
        page = read_skill_resource(skill, "u.txt", offset=offset, max_bytes=7)
        assert page.text is not None
        assert len(page.data) <= 7
        read, offset = read + page.text, page.next_offset  # type: ignore[assignment]
    assert read == text


def test_bytes_that_are_not_text_come_as_bytes(skill: SkillSpec, tmp_path: Path) -> None:
    (tmp_path / "sums/b.bin").write_bytes(b"\xff\x00\xfe")
    page = read_skill_resource(skill, "b.bin")
    assert (page.data, page.text) == (b"\xff\x00\xfe", None)


def test_an_offset_past_the_end_gives_nothing(skill: SkillSpec) -> None:
    page = read_skill_resource(skill, "LICENSE", offset=1_000)
    assert (page.data, page.next_offset) == (b"", None)


@pytest.mark.parametrize(("offset", "max_bytes"), [(-1, 10), (0, 0), (0, -1)])
def test_numbers_that_make_no_sense_are_refused(skill: SkillSpec, offset: int, max_bytes: int) -> None:
    with pytest.raises(InputError):
        read_skill_resource(skill, "LICENSE", offset=offset, max_bytes=max_bytes)


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../secret", "scripts/../../secret", "..", "a/../LICENSE", "..\\x"]
)
def test_absolute_paths_and_dots_are_refused(skill: SkillSpec, path: str) -> None:
    with pytest.raises(PathEscapeError):
        read_skill_resource(skill, path)


@pytest.mark.parametrize("target", ["../../secret", "/etc/passwd", "../.."])
def test_links_that_leave_are_refused(skill: SkillSpec, tmp_path: Path, target: str) -> None:
    (tmp_path / "sums/scripts/link").symlink_to(target)
    for path in ("scripts/link", "scripts/link/secret"):
        with pytest.raises((PathEscapeError, InputError)):
            read_skill_resource(skill, path)


def test_a_link_that_stays_is_followed(skill: SkillSpec, tmp_path: Path) -> None:
    (tmp_path / "sums/code").symlink_to("scripts")
    assert read_skill_resource(skill, "code/a.py").text == "content of scripts/a.py"


def test_a_link_put_there_during_the_call_is_not_followed(
    skill: SkillSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swap(path: Path) -> Path:
        real = path.resolve()
        if path.name == "a.py":
            path.unlink()
            path.symlink_to(tmp_path / "secret")
        return real

    monkeypatch.setattr(resources, "_real", swap)
    with pytest.raises(InputError):
        read_skill_resource(skill, "scripts/a.py")


@pytest.mark.parametrize(
    "path", ["", "nothing", "scripts", "pipe", "loop", "a\0b", "x" * 5_000, "LICENSE/x", "a\ud800"]
)
def test_what_is_no_regular_file_is_an_input_error(skill: SkillSpec, tmp_path: Path, path: str) -> None:
    os.mkfifo(tmp_path / "sums/pipe")
    (tmp_path / "sums/loop").symlink_to("loop")
    with pytest.raises(InputError):
        read_skill_resource(skill, path)


@given(
    st.text(alphabet=st.characters(), max_size=30)
    | st.lists(st.sampled_from(["..", ".", "/", "a", "scripts"])).map("/".join)
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_no_path_reads_anything_else(skill: SkillSpec, path: str) -> None:
    try:
        page = read_skill_resource(skill, path)
    except (InputError, PathEscapeError):
        return
    assert page.data.startswith(b"content of ")


def test_frontmatter_values_become_json() -> None:
    assert json.dumps(plain({"a": ("b", {"c": "d"})})) == '{"a": ["b", {"c": "d"}]}'
