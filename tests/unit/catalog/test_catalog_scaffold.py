"""A new skill runs: its script, and the case beside it. Those that need Node or jq run in the sandbox's tests."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, get_args

import pytest
import yaml

from sandbox_skills.catalog import parse_skill_file
from sandbox_skills.catalog.scaffold import Language, scaffold
from sandbox_skills.errors import CommandError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def written(folder: Path, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)


@pytest.mark.parametrize(("language", "tool"), [("python", True), ("python", False), ("bash", False)])
def test_the_case_of_a_new_skill_passes_by_hand(tmp_path: Path, language: Language, *, tool: bool) -> None:
    made = scaffold("my-skill", language=language, tool=tool)
    files = made.files
    written(tmp_path, files)
    (case,) = yaml.safe_load(files["tests/basic.yaml"])["cases"]
    assert case["run"] == made.call
    done = subprocess.run(
        ["bash", "-c", case["run"]], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (case["expect"]["exit"], "")
    assert case["expect"]["stdout"]["contains"] in done.stdout


@pytest.mark.parametrize("language", get_args(Language))
def test_what_a_new_skill_says_follows_the_specification(language: Language) -> None:
    plain, tool = (scaffold("3d-print", language=language, tool=tool).files for tool in (False, True))
    for files in (plain, tool):
        spec = parse_skill_file(files["SKILL.md"], "/skills/3d-print/SKILL.md")
        assert spec.diagnostics == ()
        assert not any("{{" in text for text in files.values())
    assert "tools.json" not in plain
    assert '"name": "run_3d_print"' in tool["tools.json"]


def test_no_other_name_is_taken() -> None:
    with pytest.raises(CommandError, match="cannot be the name"):
        scaffold("Not A Name")
