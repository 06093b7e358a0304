"""What a caller hands to a sandbox, checked before anything is sent. Pure."""

from __future__ import annotations

from functools import lru_cache
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
    if any("\0" in text for text in texts):
        raise CommandError("the command, its directory or its environment holds a NUL")
    for name in command.env:
        if not name or "=" in name:
            raise CommandError(f"{name!r} cannot be the name of an environment variable")


# Every run names the same dozen places: this was a third of the host's own time for a warm one.
@lru_cache(maxsize=256)
def below_workspace(path: PurePosixPath) -> PurePosixPath:
    """Returns `path` relative to the workspace; raises PathEscapeError unless it names something below it."""
    relative = path.relative_to(WORKSPACE) if path.is_relative_to(WORKSPACE) else path
    if relative.is_absolute() or ".." in relative.parts or not relative.parts:
        raise PathEscapeError(f"{path} is not below the workspace")
    return relative
