"""validate and new, from the command line."""

from __future__ import annotations

import json
import os
import shlex
import stat
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import Cli, MakeSkill


def test_a_sound_skill_passes(cli: Cli, skill: Path) -> None:
    for path in ("skills", "skills/sample", "skills/sample/SKILL.md"):
        done = cli("validate", path, "--strict")
        assert (done.code, done.out, done.err) == (0, "", "1 skill, 0 errors, 0 warnings, 0 notes\n")


def test_findings_are_told_with_file_line_severity_code_message_and_fix(
    cli: Cli, make_skill: MakeSkill
) -> None:
    folder = make_skill("odd")
    (folder / "SKILL.md").write_text("---\nname: Odd One\ndescription: d\ncolor: red\n---\nBody\n")
    lines = cli("validate", "skills").out.splitlines()
    assert lines[0].split() == ["FILE", "LINE", "SEVERITY", "CODE", "MESSAGE", "FIX"]
    row = next(line for line in lines if "name-characters" in line)
    assert row.startswith("skills/odd/SKILL.md  2 ")
    assert "warning" in row
    assert row.endswith("Use lowercase letters, digits and single hyphens.")


def test_what_breaks_the_specification_is_an_error_when_strict(cli: Cli, make_skill: MakeSkill) -> None:
    folder = make_skill("odd")
    (folder / "SKILL.md").write_text("---\nname: Odd\ndescription: d\n---\nBody\n")
    assert cli("validate", "skills").code == 0
    strict = cli("validate", "skills", "--strict", "--json")
    assert strict.code == 1
    assert {item["code"]: item["severity"] for item in strict.json["findings"]} == {
        "name-characters": "error",
        "name-mismatch": "error",
    }
    assert strict.json["errors"] == 2


def test_a_tool_with_the_name_of_a_built_in_one_is_an_error(cli: Cli, make_skill: MakeSkill) -> None:
    folder = make_skill("thief")
    names = ("use_skill", "workspace_exec", "define_tool", "mine")
    tools = [{"name": name, "description": "d", "skill": "thief"} for name in names]
    (folder / "tools.json").write_text(json.dumps(tools))
    done = cli("validate", "skills", "--json")
    found = [item["message"] for item in done.json["findings"] if item["code"] == "tool-name-reserved"]
    assert (done.code, len(found)) == (1, 3)
    assert len(cli("show", "thief", "--json").json["tools"]) == 1


def test_a_skill_that_does_not_load_is_an_error(cli: Cli, make_skill: MakeSkill) -> None:
    (make_skill("broken") / "SKILL.md").write_text("# No front matter\n")
    make_skill("sound")
    done = cli("validate", "skills", "--json")
    assert (done.code, done.json["skills"], done.json["errors"]) == (1, 2, 1)
    (finding,) = done.json["findings"]
    assert (finding["code"], finding["file"]) == ("frontmatter-heading-first", finding["file"])
    assert finding["file"].endswith("skills/broken/SKILL.md")


def test_tools_and_files_are_looked_at_too(cli: Cli, make_skill: MakeSkill) -> None:
    folder = make_skill("odd")
    (folder / "tools.json").write_text('[{"name": "t", "description": "d", "script": "scripts/none.py"}]')
    os.mkfifo(folder / "pipe")
    done = cli("validate", "skills/odd", "--json")
    assert done.code == 1
    codes = {item["code"] for item in done.json["findings"]}
    assert "skill-unsafe" in codes
    assert [item for item in done.json["findings"] if item["file"].endswith("tools.json")]


def test_a_path_without_a_skill_is_wrong_usage(cli: Cli, home: Path) -> None:
    (home / "empty").mkdir()
    (home / "file.md").write_text("")
    for path in ("empty", "missing", "file.md"):
        assert cli("validate", path).code == 2


def test_the_setting_that_caps_directories_holds_here_too(
    cli: Cli, make_skill: MakeSkill, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_skill("one")
    make_skill("two")
    monkeypatch.setenv("SANDBOX_SKILLS_SKILLS__MAX_DIRECTORIES", "2")
    done = cli("validate", "skills", "--json")
    assert (done.code, done.json["skills"]) == (0, 1)
    (finding,) = done.json["findings"]
    assert (finding["code"], finding["message"].endswith("the limit is 2")) == ("scan-capped", True)
    monkeypatch.setenv("SANDBOX_SKILLS_SKILLS__MAX_DIRECTORIES", "1")
    none = cli("validate", "skills")
    assert none.code == 2
    assert "before the limit on directories: 1" in none.err
    assert "skills.max_directories" in none.err


def test_nothing_is_told_twice(cli: Cli, make_skill: MakeSkill) -> None:
    (make_skill("odd") / "SKILL.md").write_text("---\nname: Odd\ndescription: d\n---\nBody\n")
    once = cli("validate", "skills", "--json").json
    assert cli("validate", "skills", "skills/odd", "--json").json == once


def test_sarif_has_what_a_code_review_needs(cli: Cli, make_skill: MakeSkill, home: Path) -> None:
    (make_skill("odd one") / "SKILL.md").write_text("---\nname: Odd\ndescription: d\n---\nBody\n")
    assert cli("validate", "skills", "--strict", "--sarif", "out.sarif").code == 1
    log = json.loads((home / "out.sarif").read_text())
    (run,) = log["runs"]
    assert log["version"] == "2.1.0"
    rules = run["tool"]["driver"]["rules"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] == "error"
        (location,) = result["locations"]
        assert location["physicalLocation"]["artifactLocation"]["uri"] == "skills/odd%20one/SKILL.md"
        assert location["physicalLocation"]["region"] == {"startLine": 2, "startColumn": 7}
    assert cli("validate", "skills", "--sarif", "missing/out.sarif").code == 2


@pytest.mark.parametrize("language", ["python", "node", "bash"])
@pytest.mark.parametrize("tool", [(), ("--tool",)])
def test_a_new_skill_is_strictly_valid(cli: Cli, home: Path, language: str, tool: tuple[str, ...]) -> None:
    done = cli("new", "my-skill", "--lang", language, *tool, "--json")
    assert done.code == 0
    assert done.json["folder"] == str(home / "my-skill")
    checked = cli("validate", "my-skill", "--strict")
    assert (checked.code, checked.out) == (0, "")
    (script,) = (home / "my-skill" / "scripts").iterdir()
    assert stat.S_IMODE(script.stat().st_mode) == 0o755
    tools = cli("--skills", ".", "show", "my-skill", "--json").json["tools"]
    assert [item["name"] for item in tools] == (["my_skill"] if tool else [])


def test_new_tells_its_files_and_touches_nothing_that_is_there(cli: Cli, home: Path) -> None:
    done = cli("new", "sums", "--dir", "skills")
    assert done.out.splitlines() == [
        "skills/sums/SKILL.md",
        "skills/sums/scripts/sums.py",
        "skills/sums/tests/basic.yaml",
    ]
    assert done.err.splitlines() == [
        "next: edit skills/sums/SKILL.md and its script, then",
        "  sandbox-skills validate --strict skills/sums",
        "  sandbox-skills test skills/sums",
        "  sandbox-skills run --skills skills sums -- python3 scripts/sums.py Ada",
    ]
    again = cli("new", "sums", "--dir", "skills")
    assert (again.code, "there already" in again.err) == (2, True)
    assert [path.name for path in (home / "skills").iterdir()] == ["sums"]


@pytest.mark.parametrize("tool", [(), ("--tool",)])
@pytest.mark.parametrize("parent", [".", "my skills"])
def test_the_commands_that_new_tells_work_as_they_are(cli: Cli, tool: tuple[str, ...], parent: str) -> None:
    _, *lines = cli("new", "sums", "--lang", "bash", "--dir", parent, *tool).err.splitlines()
    check, _, run = (shlex.split(line)[1:] for line in lines)
    assert cli(*check).code == 0
    # The fake engine has no bash: its word for a program that is not there.
    assert cli("--engine", "fake", *run).code == 127


@pytest.mark.parametrize("name", ["Sums", "a--b", "-a", "../x", "a/b", "a" * 65, "", "é"])
def test_new_makes_no_skill_that_the_specification_does_not_allow(cli: Cli, home: Path, name: str) -> None:
    assert cli("new", "--", name).code == 2
    assert list(home.iterdir()) == []


def test_new_in_an_unknown_language_or_where_nothing_can_be_made_is_told(cli: Cli, home: Path) -> None:
    assert "python, node, bash" in cli("new", "x", "--lang", "cobol").err
    (home / "file").write_text("")
    assert cli("new", "x", "--dir", "file").code == 2
