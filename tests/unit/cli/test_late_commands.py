"""The tree of commands: what is told of them before they are made is what they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sandbox_skills.cli.commands import app
from sandbox_skills.cli.late_commands import program
from sandbox_skills.cli.late_validators import PlainValues
from sandbox_skills.cli.options import GlobalOptions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GLOBAL = {"skills", "config", "engine", "accept_no_isolation"}


def commands(group: Any, path: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401  # typer's own classes
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{path}{name} ")
        else:
            yield path + name, command


def test_every_command_takes_the_global_options() -> None:
    without = {
        name for name, one in commands(program(app)) if not {param.name for param in one.params} >= GLOBAL
    }
    assert without == set()


@pytest.mark.parametrize("path", [(), ("image",), ("keys",), ("skills",)], ids=" ".join)
def test_help_makes_no_command_and_says_what_each_says_of_itself(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    tree: Any = program(app)
    group = tree
    for name in path:
        group = group.commands[name]
    tree.main([*path, "--help"], prog_name="sandbox-skills", standalone_mode=False, obj=GlobalOptions())
    told = capsys.readouterr().out
    assert not group.commands.data, "none was made"
    for name, command in group.commands.items():
        assert f"  {name} " in told
        assert " ".join(command.get_short_help_str(200).split()[:3]) in told


def test_a_command_is_made_once() -> None:
    tree: Any = program(app)
    assert tree.commands["list"] is tree.commands["list"]
    assert list(tree.commands.data) == ["list"]


def taken(name: str, arguments: list[str], **how: bool) -> object:
    """Returns what a command would be given, or what is said against it."""
    command: Any = program(app).commands[name]
    try:
        with command.make_context(name, list(arguments), **how) as context:
            return context.params
    except Exception as error:  # noqa: BLE001  # whichever the library has
        return type(error), str(error)


def as_the_library_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlainValues, "of", lambda _, usual: usual())


@pytest.mark.parametrize("name", ["list", "run", "call", "test"])
def test_what_is_not_given_is_taken_as_the_library_takes_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = taken(name, [], resilient_parsing=True)
    assert isinstance(ours, dict)
    as_the_library_has_it(monkeypatch)
    assert ours == taken(name, [], resilient_parsing=True)


@pytest.mark.parametrize(
    "arguments",
    [
        ["a", "--skills", "x", "--skills", "/y/../z", "--engine", "fake"],
        ["a", "--skills", "", "--engine", ""],
        ["a", "--skills", "-", "--config", "/etc/passwd"],
        ["a", "--skills", "caf\u00e9", "--engine", "\u00e9\u202e", "--output", "\u00e9"],
        ["\udcff", "--skills", "\udcff"],
        ["a", "--engine", "\udcff"],
        ["a", "--skills", "a\0b", "--engine", "a\0b"],
        ["a", "--input", "x", "--input", "y:z", "--timeout", "1.5"],
        ["a", "--timeout", "soon"],
        ["a", "--out-dir", "unreadable"],
        ["a", "--", "b", "\u00e9"],
        [],
    ],
)
def test_what_is_given_is_taken_as_the_library_takes_it(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "unreadable").mkdir(mode=0)
    monkeypatch.chdir(tmp_path)

    ours = taken("run", arguments)
    as_the_library_has_it(monkeypatch)
    assert ours == taken("run", arguments)
