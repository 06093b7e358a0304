from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.catalog import resources

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import Cli, MakeSkill

HEAD = ["NAME", "TRUST", "TOKENS", "TOOLS", "FILES", "WARN", "FOLDER", "DESCRIPTION"]
WORDS = "Has a description that is longer than any terminal is wide. " * 5


def test_a_pipe_gets_whole_values_in_columns(cli: Cli, make_skill: MakeSkill) -> None:
    make_skill("a", description=WORDS)
    make_skill("longer-name", description="Short.")
    head, first, second = cli("list").out.splitlines()
    assert head.split() == HEAD
    assert first.endswith(WORDS.strip())
    assert second.endswith("Short.")
    assert first.index("skills/a") == second.index("skills/longer-name") == head.index("FOLDER")
    assert not [line for line in (head, first, second) if line != line.rstrip()]


def test_list_as_json_has_what_there_is_to_know(cli: Cli, skill: Path) -> None:
    (row,) = cli("list", "--json").json
    assert row["name"] == row["id"] == "sample"
    assert row["folder"] == str(skill)


def test_no_skills_are_no_error_and_no_output(cli: Cli) -> None:
    done = cli("list")
    assert (done.code, done.out) == (0, "")
    assert "--skills DIR" in done.err
    assert cli("list", "--json").json == []


def test_the_first_root_wins(cli: Cli, make_skill: MakeSkill, home: Path) -> None:
    first = make_skill("twin", root="one")
    second = make_skill("twin", root="two")
    assert cli("--skills", "one", "--skills", "two", "show", "twin", "--json").json["folder"] == str(first)
    assert cli("--skills", "two", "--skills", "one", "show", "twin", "--json").json["folder"] == str(second)


def test_named_roots_replace_the_usual_ones(cli: Cli, make_skill: MakeSkill) -> None:
    make_skill("usual")
    make_skill("agents", root=".agents/skills")
    make_skill("named", root="elsewhere")
    names = [row["name"] for row in cli("list", "--json").json]
    assert sorted(names) == ["agents", "usual"]
    assert [row["name"] for row in cli("--skills", "elsewhere", "list", "--json").json] == ["named"]


def test_a_root_of_the_environment_counts(
    cli: Cli, make_skill: MakeSkill, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_skill("shared", root="elsewhere")
    monkeypatch.setenv("SKILLS_ROOT", "elsewhere")
    assert [row["name"] for row in cli("list", "--json").json] == ["shared"]


def test_settings_come_from_the_file_that_is_named_and_never_from_the_current_directory(
    cli: Cli, make_skill: MakeSkill, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_skill("usual")
    make_skill("named", root="elsewhere")
    for name in ("settings.yaml", "sandbox-skills.yaml", ".env"):
        (home / name).write_text("skills: {roots: [elsewhere]}\nengine: nonsense\n", encoding="utf-8")
    assert [row["name"] for row in cli("list", "--json").json] == ["usual"]
    (home / "mine.yaml").write_text("skills: {roots: [elsewhere]}\n", encoding="utf-8")
    assert [row["name"] for row in cli("--config", "mine.yaml", "list", "--json").json] == ["named"]
    monkeypatch.setenv("SANDBOX_SKILLS_CONFIG", "mine.yaml")
    assert [row["name"] for row in cli("list", "--json").json] == ["named"]
    assert [row["name"] for row in cli("--skills", "skills", "list", "--json").json] == ["usual"]


def test_show_tells_what_a_skill_is(cli: Cli, skill: Path) -> None:
    done = cli("show", "sample")
    assert (done.code, done.err) == (0, "")
    digest = cli("show", "sample", "--json").json["digest"]
    assert done.out.splitlines()[:8] == [
        "name: sample",
        "description: Does what a test needs.",
        f"folder: {skill}",
        "trust: found",
        f"digest: {digest}",
        "in a prompt: nothing: its root was not named and it is not trusted",
        "size: about 0 tokens in a prompt, 2 when it is loaded",
        "scripts: one.py, two.py",
    ]
    assert done.out.endswith("# sample\n")
    assert cli("show", "sample", "--json").json["files"]["scripts"] == ["one.py", "two.py"]


def test_what_a_stranger_wrote_cannot_steer_a_terminal(cli: Cli, make_skill: MakeSkill) -> None:
    folder = make_skill("odd", description="Is \\u001b[2J odd.")
    (folder / "SKILL.md").write_text(
        '---\nname: odd\ndescription: "Is \\e[2J odd \\u202e."\n---\nBody \x1b]0;title\x07\n',
        encoding="utf-8",
    )
    for command in (["list"], ["show", "odd"]):
        done = cli(*command)
        assert "odd" in done.out
        assert not set("\x1b\x07\u202e") & set(done.out + done.err)


@pytest.mark.parametrize("command", [["show"], ["run"]])
def test_an_unknown_skill_is_told_with_near_ones(cli: Cli, skill: Path, command: list[str]) -> None:
    extra = ["--", "true"] if command == ["run"] else []
    done = cli(*command, "smaple", *extra)
    assert (done.code, done.out) == (2, "")
    assert done.err == "error: no skill is named 'smaple'\nhint: did you mean sample?\n"


def test_an_unknown_skill_that_is_like_none_points_to_the_list(cli: Cli, skill: Path) -> None:
    assert "hint: sandbox-skills list\n" in cli("show", "zzz").err


def test_an_unknown_skill_where_there_are_none_points_to_the_option(cli: Cli) -> None:
    assert "--skills DIR" in cli("show", "zzz").err


def test_markup_and_names_of_emoji_are_text(cli: Cli, make_skill: MakeSkill) -> None:
    make_skill("plain", description="Prints [bold]x[/] and :smile: as they are.")
    assert "Prints [bold]x[/] and :smile: as they are." in cli("list").out


def add_fifo(folder: Path) -> None:
    os.mkfifo(folder / "pipe")


def add_device(folder: Path) -> None:
    os.mknod(folder / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))


def add_leaving_link(folder: Path) -> None:
    (folder / "link").symlink_to("../../../../../etc/passwd")


@pytest.mark.parametrize(
    "add",
    [add_fifo, pytest.param(add_device, marks=pytest.mark.root), add_leaving_link],
    ids=["fifo", "device", "leaving link"],
)
def test_a_skill_with_something_unsafe_is_refused_and_leaves_nothing(
    cli: Cli, skill: Path, tmp_path: Path, add: object
) -> None:
    assert callable(add)
    add(skill)
    done = cli("--engine", "fake", "run", "sample", "--json", "--", "true")
    assert (done.code, done.json["error"]["code"]) == (2, "skill_unsafe")
    assert list((tmp_path / "data/store/temporary").iterdir()) == []
    assert list((tmp_path / "data/store/used").iterdir()) == []


def test_show_tells_what_a_model_would_see(cli: Cli, skill: Path) -> None:
    done = cli("--skills", "skills", "show", "sample")
    assert "in a prompt: - **sample**: Does what a test needs." in done.out
    tokens = cli("--skills", "skills", "show", "sample", "--json").json["approximate_tokens"]
    assert tokens == {"prompt": 10, "body": 2}


TOOLS = """[
    {"name": "add", "description": "Adds.", "script": "scripts/one.py", "parameters": {
        "a": {"type": "number", "description": "One."},
        "b": {"type": "number", "description": "Other.", "optional": true}}},
    {"name": "X"}
]"""


def test_show_tells_the_tools_with_their_parameters_and_what_is_wrong_with_them(
    cli: Cli, skill: Path
) -> None:
    (skill / "tools.json").write_text(TOOLS)
    done = cli("show", "sample")
    assert "tool: add(a, b?): Adds." in done.out
    assert "error: tool-" in done.out
    shown = cli("show", "sample", "--json").json
    assert shown["tools"] == [
        {
            "name": "add",
            "description": "Adds.",
            "script": "scripts/one.py",
            "parameters": {
                "type": "object",
                "properties": {
                    "a": {"type": "number", "description": "One."},
                    "b": {"type": "number", "description": "Other."},
                },
                "required": ["a"],
                "additionalProperties": False,
            },
        }
    ]
    found = shown["manifest_diagnostics"]
    assert {item["code"] for item in found} == {"tool-name-invalid", "tool-description-missing"}
    assert {item["severity"] for item in found} == {"error"}


def test_list_tells_how_much_there_is_of_each_skill(cli: Cli, make_skill: MakeSkill) -> None:
    plain = make_skill("plain", scripts=("one.py", "two.py"))
    (plain / "tools.json").write_text(TOOLS)
    (plain / "LICENSE").write_text("")
    hiding = make_skill("quiet", description="Line one.\nLine two.")
    text = (hiding / "SKILL.md").read_text()
    (hiding / "SKILL.md").write_text(text.replace("---\n#", "disable-model-invocation: true\n---\n#"))
    named = ("--skills", "skills")
    _, first, second = cli(*named, "list").out.splitlines()
    assert first.split()[:6] == ["plain", "named", "~9", "1", "4", "0"]
    assert second.split()[:6] == ["quiet", "named", "hides", "0", "0", "1"]
    assert cli("list").out.splitlines()[1].split()[:3] == ["plain", "found", "none"]
    rows = cli(*named, "list", "--json").json
    assert [row["approximate_tokens"]["prompt"] for row in rows] == [9, 0]
    assert [row["model_invocable"] for row in rows] == [True, False]
    kinds = ("tool_count", "resource_count", "resources_truncated", "warning_count")
    assert [[row[kind] for kind in kinds] for row in rows] == [[1, 4, False, 0], [0, 0, False, 1]]
    assert "description-multiline" in {item["code"] for item in rows[1]["warnings"]}


def test_a_list_of_files_that_is_cut_says_so(cli: Cli, skill: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "MAX_LISTED", 1)
    assert cli("list").out.splitlines()[1].split()[4] == "1+"
    assert cli("list", "--json").json[0]["resources_truncated"] is True


def test_show_tells_the_digest_that_trust_pins_and_why_there_is_none(cli: Cli, skill: Path) -> None:
    before = cli("show", "sample", "--json").json["digest"]
    assert cli("trust", "sample", "--json").json["digest"] == before
    (skill / "scripts" / "one.py").write_text("print(2)\n")
    assert cli("show", "sample", "--json").json["digest"] not in {None, before}
    add_fifo(skill)
    shown = cli("show", "sample", "--json").json
    assert (shown["digest"], "pipe" in shown["unsafe"]) == (None, True)
    assert f"digest: none: {shown['unsafe']}" in cli("show", "sample").out


def test_list_all_shows_hidden_skills_with_both_places(cli: Cli, make_skill: MakeSkill) -> None:
    make_skill("twin", root="one")
    hidden = make_skill("twin", root="two")
    roots = ("--skills", "one", "--skills", "two")
    assert len(cli(*roots, "list").out.splitlines()) == 2
    last = cli(*roots, "list", "--all").out.splitlines()[-1]
    assert "hidden by one/twin" in last
    assert "two/twin" in last
    row = cli(*roots, "list", "--all", "--json").json[-1]
    assert row["folder"] == str(hidden)
    assert row["shadowed_by"].endswith("one/twin")
    assert row["approximate_tokens"]["prompt"] == 0


def test_the_last_root_wins_where_the_settings_say_so(
    cli: Cli, make_skill: MakeSkill, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_skill("twin", root="one")
    second = make_skill("twin", root="two")
    monkeypatch.setenv("SANDBOX_SKILLS_SKILLS__PRECEDENCE", "last")
    shown = cli("--skills", "one", "--skills", "two", "show", "twin", "--json")
    assert shown.json["folder"] == str(second)


def test_user_looks_below_the_home_directory(cli: Cli, make_skill: MakeSkill) -> None:
    make_skill("mine", root="../.claude/skills")
    make_skill("usual")
    assert [row["name"] for row in cli("list", "--json").json] == ["usual"]
    rows = cli("list", "--user", "--json").json
    assert [(row["name"], row["trust"]) for row in rows] == [("usual", "found"), ("mine", "found")]
    assert cli("show", "mine").code == 2
    assert cli("show", "mine", "--user").code == 0
