"""What a caller hands to a sandbox, checked before anything is sent. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.errors import CommandError, PathEscapeError
from sandbox_skills.spec import WORKSPACE

if TYPE_CHECKING:
    from pathlib import PurePosixPath

    from sandbox_skills.spec import Command, TerminalSize


MAX_TERMINAL_SIDE = 1000
"""Most rows or columns: no screen has more, and programs allocate what they multiply to."""


def check_terminal(size: TerminalSize) -> None:
    """Raises CommandError for a size that no terminal has."""
    if not all(1 <= side <= MAX_TERMINAL_SIDE for side in (size.rows, size.cols)):
        raise CommandError(
            f"a terminal of {size.rows} by {size.cols} cannot be",
            hint=f"rows and columns are 1 to {MAX_TERMINAL_SIDE}",
        )


def check_command(command: Command) -> None:
    """Raises CommandError for what no kernel could execute."""
    if not command.argv or not command.argv[0]:
        raise CommandError("the command is empty", hint="give a program and its arguments")
    texts = (*command.argv, str(command.cwd), *command.env.keys(), *command.env.values())
    if "\0" in "".join(texts):
        raise CommandError("the command, its directory or its environment holds a NUL")
    for name in command.env:
        if not name or "=" in name:
            raise CommandError(f"{name!r} cannot be the name of an environment variable")


def below_workspace(path: PurePosixPath | str) -> str:
    """Returns `path` relative to the workspace; raises PathEscapeError unless it names something below it."""
    text = str(path).removeprefix(_WORKSPACE_PREFIX)
    # Parts that are empty, `.` or `..`. A regular expression takes half as long again, nine times for each run.
    framed = f"/{text}/"
    if "//" in framed or "/./" in framed or "/../" in framed:
        raise PathEscapeError(f"{path} is not below the workspace")
    return text


_WORKSPACE_PREFIX = f"{WORKSPACE}/"
