"""tools.json on disk: beside its scripts, and never outside its skill."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.catalog import ManifestOptions, SkillSpec, ToolManifest, load_manifest
from sandbox_skills.catalog.manifest_json import MAX_BYTES

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def skill(tmp_path: Path) -> SkillSpec:
    root = tmp_path / "sums"
    (root / "scripts").mkdir(parents=True)
    (root / "scripts/add.py").write_text("def handler(args): ...")
    (tmp_path / "secret.json").write_text("[]")
    (tmp_path / "secret.py").write_text("")
    return SkillSpec(id="sums", name="sums", description="d", path=str(root / "SKILL.md"), dir=str(root))


def declare(skill: SkillSpec, *scripts: str | None) -> None:
    tools = [
        {"name": f"t{number}", "description": "d", "script": script} for number, script in enumerate(scripts)
    ]
    with open(f"{skill.dir}/tools.json", "w") as file:  # noqa: PTH123 — the directory is text
        json.dump(tools, file)


def test_a_skill_without_a_manifest_has_no_tools_and_no_finding(skill: SkillSpec) -> None:
    assert load_manifest(skill) == ToolManifest()


def test_the_tools_of_a_skill_carry_its_name(skill: SkillSpec) -> None:
    declare(skill, "scripts/add.py", None)
    manifest = load_manifest(skill)
    assert [(tool.name, tool.script, tool.skill) for tool in manifest.tools] == [
        ("t0", "scripts/add.py", "sums"),
        ("t1", None, "sums"),
    ]
    assert manifest.diagnostics == ()


def test_a_missing_script_skips_that_tool_only(skill: SkillSpec) -> None:
    declare(skill, "scripts/gone.py", "scripts", "scripts/add.py")
    manifest = load_manifest(skill)
    assert [tool.name for tool in manifest.tools] == ["t2"]
    assert [item.code for item in manifest.diagnostics] == ["tool-script-missing"] * 2


def test_a_script_may_be_a_link_inside_the_skill_and_not_out_of_it(skill: SkillSpec, tmp_path: Path) -> None:
    (tmp_path / "sums/in.py").symlink_to("scripts/add.py")
    (tmp_path / "sums/out.py").symlink_to("../secret.py")
    declare(skill, "in.py", "out.py")
    assert [tool.name for tool in load_manifest(skill).tools] == ["t0"]


def test_a_script_need_not_be_executable(skill: SkillSpec, tmp_path: Path) -> None:
    (tmp_path / "sums/scripts/add.py").chmod(0o444)
    declare(skill, "scripts/add.py")
    assert len(load_manifest(skill).tools) == 1


def test_options_are_passed_on(skill: SkillSpec) -> None:
    declare(skill, None, None)
    manifest = load_manifest(skill, ManifestOptions(reserved=frozenset({"t0"})))
    assert [tool.name for tool in manifest.tools] == ["t1"]


@pytest.mark.parametrize("kind", ["link out", "link to nothing", "loop", "directory", "fifo"])
def test_what_is_no_file_of_the_skill_is_said_to_be_unreadable(
    skill: SkillSpec, tmp_path: Path, kind: str
) -> None:
    place = tmp_path / "sums/tools.json"
    match kind:
        case "link out":
            place.symlink_to("../secret.json")
        case "link to nothing":
            place.symlink_to("nothing")
        case "loop":
            place.symlink_to("tools.json")
        case "directory":
            place.mkdir()
        case _:
            os.mkfifo(place)
    manifest = load_manifest(skill)
    assert [item.code for item in manifest.diagnostics] == ["manifest-unreadable"]


def test_a_huge_manifest_is_not_read_whole(skill: SkillSpec, tmp_path: Path) -> None:
    with (tmp_path / "sums/tools.json").open("wb") as file:
        file.truncate(100 * MAX_BYTES)
    assert [item.code for item in load_manifest(skill).diagnostics] == ["manifest-too-large"]
