from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandbox_skills.cli.request import environment, input_of, invocation, limits, output_directory
from sandbox_skills.errors import CommandError, InputError, RequestError
from sandbox_skills.settings import Settings
from sandbox_skills.workspace.inputs import Input
from sandbox_skills.workspace.manager import Argv, Script, Shell


def test_one_command_is_meant() -> None:
    assert invocation(["python3", "-V"], None, None) == Argv(("python3", "-V"))
    assert invocation([], "a | b", None) == Shell("a | b")
    assert invocation(["--n", "1"], None, "scripts/x.py") == Script("scripts/x.py", ("--n", "1"))


@pytest.mark.parametrize(
    ("argv", "command", "script"), [([], None, None), (["x"], "y", None), ([], "y", "z"), (["x"], "y", "z")]
)
def test_none_and_several_commands_are_refused(
    argv: list[str], command: str | None, script: str | None
) -> None:
    with pytest.raises(CommandError):
        invocation(argv, command, script)


def test_later_variables_win_and_the_command_line_beats_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "1.env", tmp_path / "2.env"
    first.write_text("A=file1\nB=file1\nC=file1\n", encoding="utf-8")
    second.write_text("B=file2\nC=file2\n", encoding="utf-8")
    monkeypatch.setenv("D", "mine")
    shown, hidden = environment(["C=line1", "E=x=y", "C=line2", "D", "EMPTY="], [first, second])
    assert shown == {"C": "line2", "E": "x=y", "EMPTY": ""}
    assert hidden == {"A": "file1", "B": "file2", "D": "mine"}


def test_of_a_variable_given_both_ways_the_later_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("D", "mine")
    assert environment(["D", "D=line"], []) == ({"D": "line"}, {})
    assert environment(["D=line", "D"], []) == ({}, {"D": "mine"})


def test_a_variable_that_the_caller_has_not_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_HERE", raising=False)
    with pytest.raises(InputError, match="NOT_HERE"):
        environment(["NOT_HERE"], [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.csv", Input(Path("a.csv"))),
        ("a.csv:b.csv", Input(Path("a.csv"), "b.csv")),
        ("dir/a:b:inputs/", Input(Path("dir/a:b"), "inputs/")),
    ],
)
def test_an_input_is_a_source_and_perhaps_a_target(text: str, expected: Input) -> None:
    assert input_of(text) == expected


def test_a_path_that_exists_is_a_source_whatever_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a:b").touch()
    assert input_of("a:b") == Input(Path("a:b"))


@pytest.mark.parametrize("text", ["a:", ":b", ":"])
def test_an_input_with_a_half_missing_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        input_of(text)


def test_a_timeout_is_the_wall_time_up_to_the_ceiling() -> None:
    settings = Settings()
    assert limits(settings, None) == settings.run_limits()
    assert limits(settings, 900).wall_seconds == 900


@pytest.mark.parametrize("timeout", [0, -1, 900.1, float("nan"), float("inf")])
def test_a_timeout_beyond_the_ceiling_or_none_is_refused(timeout: float) -> None:
    with pytest.raises(CommandError) as caught:
        limits(Settings(), timeout)
    assert "900" in caught.value.message + caught.value.hint
    assert ("wall_ceiling" in caught.value.hint) == (timeout > 900)


def test_a_directory_for_outputs_need_not_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert output_directory(Path("new/below")) == tmp_path / "new" / "below"
    assert list(tmp_path.iterdir()) == []


def test_outputs_cannot_go_to_or_below_a_file_or_a_dangling_link(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to("nowhere")
    for place in ("file", "file/below", "dangling"):
        with pytest.raises(RequestError, match="not a directory"):
            output_directory(tmp_path / place)


def test_outputs_cannot_go_where_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
    with pytest.raises(RequestError, match="not yours"):
        output_directory(tmp_path / "new")
