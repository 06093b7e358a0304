"""The surface of the program: every command, every option, every result as JSON."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest
import typer

from sandbox_skills.cli.commands import app

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.unit.cli.conftest import Cli, MakeSkill


def commands(group: typer.Typer, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for info in group.registered_commands:
        assert info.callback is not None
        yield prefix + (info.name or info.callback.__name__), info.callback
    for below in group.registered_groups:
        assert below.typer_instance is not None
        # A group without a name adds its commands to those around it.
        named = f"{prefix}{below.name} " if isinstance(below.name, str) else prefix
        yield from commands(below.typer_instance, named)


assert app.registered_callback is not None
COMMANDS = {**dict(commands(app)), "": app.registered_callback.callback}


def with_json(arguments: list[str]) -> list[str]:
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    return [*arguments[:cut], "--json", *arguments[cut:]]


@pytest.mark.parametrize("name", COMMANDS)
def test_each_option_and_argument_has_a_sentence_of_help(name: str) -> None:
    function = COMMANDS[name]
    hints = inspect.get_annotations(function, eval_str=True)
    for parameter in inspect.signature(function).parameters:
        if hints[parameter] is typer.Context:
            continue
        text = hints[parameter].__metadata__[0].help
        assert text, parameter
        assert text[0].isalpha(), parameter
        assert text.endswith("."), parameter


@pytest.mark.parametrize("name", [name for name in COMMANDS if name])
def test_each_command_has_json_and_a_help_that_fits_its_line(name: str, cli: Cli) -> None:
    done = cli(*name.split(), "--help")
    assert (done.code, done.err) == (0, "")
    assert "--json" in done.out
    summary = inspect.getdoc(COMMANDS[name])
    assert summary is not None
    listing = cli(*name.split()[:-1], "--help").out
    assert summary in listing


@pytest.mark.parametrize("name", [name for name in COMMANDS if name])
def test_each_command_takes_the_global_options(name: str, cli: Cli) -> None:
    told = cli(*name.split(), "--help").out
    assert all(f"  {option} " in told for option in ("--skills", "--config", "--engine")), told


def test_global_options_count_before_and_after_a_command(cli: Cli, make_skill: MakeSkill, home: Path) -> None:
    make_skill("one", root="a")
    make_skill("two", root="b")
    for line in (
        ["--skills", "a", "--skills", "b", "list"],
        ["list", "--skills", "a", "--skills", "b"],
        ["--skills", "a", "list", "--skills", "b"],
    ):
        assert [row["name"] for row in cli(*line, "--json").json] == ["one", "two"]
    assert cli("run", "one", "--skills", "a", "--engine", "fake", "--", "true").code == 0
    assert "missing.yaml" in cli("list", "--config", "missing.yaml").err
    done = cli("run", "one", "--skills", "a", "--engine", "fake", "--", "echo", "--skills", "--engine")
    assert done.out == "--skills --engine\n"


def test_no_arguments_are_a_wish_for_help(cli: Cli) -> None:
    assert cli() == cli("--help")
    assert cli().code == 0


def test_the_version_is_told(cli: Cli) -> None:
    done = cli("--version")
    assert done.code == 0
    assert done.out.startswith("sandbox-skills ")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["lst"], "Did you mean 'list'?"),
        (["run"], "Missing argument 'SKILL'"),
        (["list", "--no-such"], "--no-such"),
        (["run", "x", "--timeout", "soon", "--", "true"], "'--timeout'"),
        (["--engine", "podman", "list"], "engine"),
        (["image", "build", "--target", "huge"], "target"),
        (["--config", "missing.yaml", "list"], "missing.yaml: there is no such file"),
        (["--skills", "missing", "list"], "missing is no folder of skills"),
    ],
)
def test_wrong_usage_is_told_in_text_and_in_json(cli: Cli, arguments: list[str], told: str) -> None:
    as_text = cli(*arguments)
    assert (as_text.code, as_text.out) == (2, "")
    assert told in as_text.err
    assert "Traceback" not in as_text.err
    as_json = cli(*with_json(arguments))
    assert (as_json.code, as_json.err) == (2, "")
    assert told in as_json.json["error"]["message"]


def test_a_group_without_a_command_is_wrong_usage(cli: Cli) -> None:
    done = cli("image")
    assert (done.code, done.out) == (2, "")
    assert done.err == "error: Missing command.\nhint: sandbox-skills image --help\n"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["list"], 0),
        (["show", "sample"], 0),
        (["run", "sample", "--", "true"], 0),
        (["run", "sample", "--", "false"], 1),
        (["gc"], 0),
        (["show", "simple"], 2),
        (["run", "simple", "--", "true"], 2),
    ],
)
def test_with_json_stdout_is_one_value_and_stderr_is_empty(
    cli: Cli, skill: Path, arguments: list[str], code: int
) -> None:
    done = cli("--engine", "fake", *with_json(arguments))
    assert (done.code, done.err) == (code, "")
    assert done.json is not None
    assert "\x1b" not in done.out


def test_an_unforeseen_error_is_told_with_its_traceback_and_is_no_code_of_a_program(
    cli: Cli, skill: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("sandbox_skills.cli.skills.find_skill", broken)
    done = cli("show", "sample")
    assert done.code == 125
    assert "Traceback" in done.err
    assert "ZeroDivisionError: oops" in done.err
    monkeypatch.setattr("sandbox_skills.cli.run.find_skill", broken)
    assert cli("run", "sample", "--json", "--", "true").json["error"]["code"] == "internal"


def test_a_data_directory_that_cannot_be_is_told(
    cli: Cli, skill: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SANDBOX_SKILLS_DATA_DIR", "/dev/null/data")
    done = cli("--engine", "fake", "run", "sample", "--", "true")
    assert (done.code, done.out) == (2, "")
    assert "/dev/null/data" in done.err


def test_list_shows_folders_that_are_no_skills_on_stderr(cli: Cli, make_skill: MakeSkill, home: Path) -> None:
    make_skill("good")
    bad = make_skill("bad")
    (bad / "SKILL.md").write_text("no front matter", encoding="utf-8")
    done = cli("list")
    assert done.code == 0
    assert "good" in done.out
    assert "skills/bad" not in done.out
    assert "skills/bad" in done.err
    bad.joinpath("SKILL.md").write_text("---\nname: bad\n---\n", encoding="utf-8")
    assert "error: skills/bad/SKILL.md: description: is missing" in cli("list").err
