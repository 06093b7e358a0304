"""What is refused before anything is sent."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from sandbox_skills.engines.arguments import MAX_TERMINAL_SIDE, below_workspace, check_command, check_terminal
from sandbox_skills.errors import CommandError, PathEscapeError
from sandbox_skills.spec import Command, TerminalSize


@pytest.mark.parametrize(
    "command",
    [
        Command(()),
        Command(("",)),
        Command(("a", "b\0c")),
        Command(("a",), env={"A": "\0"}),
        Command(("a",), env={"A=B": "c"}),
        Command(("a",), env={"": "c"}),
        Command(("a",), cwd=PurePosixPath("/workspace/\0")),
    ],
)
def test_a_command_that_no_kernel_could_execute_is_refused(command: Command) -> None:
    with pytest.raises(CommandError):
        check_command(command)


def test_an_ordinary_command_passes() -> None:
    check_command(Command(("a", ""), env={"A": "", "B": "x=y"}))


@pytest.mark.parametrize("size", [(0, 80), (24, 0), (24, -1), (MAX_TERMINAL_SIDE + 1, 80), (24, 1 << 16)])
def test_a_size_that_no_terminal_has_is_refused(size: tuple[int, int]) -> None:
    with pytest.raises(CommandError):
        check_terminal(TerminalSize(*size))


def test_an_ordinary_terminal_passes() -> None:
    for size in (TerminalSize(), TerminalSize(1, 1), TerminalSize(MAX_TERMINAL_SIDE, MAX_TERMINAL_SIDE)):
        check_terminal(size)


@pytest.mark.parametrize(
    "text", ["..", "../a", "a/../b", "/", "/etc/passwd", "/workspace", "/workspaces/a", ".", ""]
)
def test_a_path_that_names_nothing_below_the_workspace_is_refused(text: str) -> None:
    with pytest.raises(PathEscapeError):
        below_workspace(PurePosixPath(text))


@pytest.mark.parametrize("text", ["out/a", "/workspace/out/a", "./out//a"])
def test_a_path_below_the_workspace_is_made_relative(text: str) -> None:
    assert below_workspace(PurePosixPath(text)) == "out/a"


@pytest.mark.parametrize(
    "text", ["", "/workspace/", "/workspace//a", "a//b", "a/", "a/./b", "a/../b", "..", "a\n/.."]
)
def test_a_text_that_is_no_plain_path_is_refused(text: str) -> None:
    with pytest.raises(PathEscapeError):
        below_workspace(text)


@pytest.mark.parametrize("text", ["out/...", "out/.a", "out/a.", "..a", "out\n", ".\n"])
def test_dots_within_a_name_are_names(text: str) -> None:
    assert below_workspace(f"/workspace/{text}") == below_workspace(PurePosixPath(text)) == text
