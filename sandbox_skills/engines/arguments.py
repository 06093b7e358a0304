"""What a caller hands to a sandbox, checked before anything is sent. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.errors import CommandError, PathEscapeError
from sandbox_skills.spec import MIB, WORKSPACE

if TYPE_CHECKING:
    from pathlib import PurePosixPath

    from sandbox_skills.spec import Command


MAX_STDIN = 16 * MIB
"""The runner queues no more for programs that do not read; beyond, it would not hear a cancel behind the data."""


def check_command(command: Command) -> None:
    """Raises CommandError for what no kernel could execute, or the runner could not queue."""
    if command.stdin is not None and len(command.stdin) > MAX_STDIN:
        raise CommandError(
            f"standard input of {len(command.stdin)} bytes is longer than {MAX_STDIN}",
            hint="put it into the workspace as a file and redirect it",
        )
    if not command.argv or not command.argv[0]:
        raise CommandError("the command is empty", hint="give a program and its arguments")
    texts = (*command.argv, str(command.cwd), *command.env.keys(), *command.env.values())
    if any("\0" in text for text in texts):
        raise CommandError("the command, its directory or its environment holds a NUL")
    for name in command.env:
        if not name or "=" in name:
            raise CommandError(f"{name!r} cannot be the name of an environment variable")


def below_workspace(path: PurePosixPath) -> PurePosixPath:
    """Returns `path` relative to the workspace; raises PathEscapeError unless it names something below it."""
    relative = path.relative_to(WORKSPACE) if path.is_relative_to(WORKSPACE) else path
    if relative.is_absolute() or ".." in relative.parts or not relative.parts:
        raise PathEscapeError(f"{path} is not below the workspace")
    return relative
