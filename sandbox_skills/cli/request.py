"""The options of `run` → what the workspace manager is asked for, or a clear refusal."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_skills.errors import CommandError, InputError, RequestError
from sandbox_skills.settings import caller_environment, read_env_file
from sandbox_skills.workspace.inputs import Input
from sandbox_skills.workspace.manager import Argv, Script, Shell

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sandbox_skills.settings import Settings
    from sandbox_skills.spec import Limits
    from sandbox_skills.workspace.manager import Invocation


def invocation(argv: Sequence[str], command: str | None, script: str | None) -> Invocation:
    """Returns the one command that is meant; raises CommandError for none and for several."""
    if command is not None and script is not None:
        raise CommandError("--command and --script exclude each other")
    if command is not None:
        if argv:
            raise CommandError("give either --command or a command after --, not both")
        return Shell(command)
    if script is not None:
        return Script(script, tuple(argv))
    if not argv:
        raise CommandError(
            "no command was given", hint="end with `-- python3 scripts/x.py`, or give --command or --script"
        )
    return Argv(tuple(argv))


def environment(pairs: Iterable[str], files: Iterable[Path]) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the variables for a run: those of K=V, then those of NAME and of files, which no record may show.

    Of one name that is given twice the later counts, and files come before options.
    """
    shown: dict[str, str] = {}
    hidden: dict[str, str] = {}
    for path in files:
        hidden |= read_env_file(path)
    for pair in pairs:
        name, given, value = pair.partition("=")
        hidden.pop(name, None)
        shown.pop(name, None)
        if given:
            shown[name] = value
        else:
            hidden |= caller_environment([name])
    return shown, hidden


def input_of(text: str) -> Input:
    """Reads FROM[:TO]. A path that exists as it stands is all FROM, colons included."""
    if Path(text).exists() or ":" not in text:
        return Input(Path(text))
    source, _, target = text.rpartition(":")
    if not source or not target:
        raise InputError(f"--input {text}: FROM and TO may not be empty")
    return Input(Path(source), target)


def limits(settings: Settings, timeout: float | None) -> Limits:
    """Returns the limits of a run that is to end after `timeout` seconds, None for what the settings say."""
    usual = settings.run_limits()
    if timeout is None:
        return usual
    ceiling = settings.run.wall_ceiling_seconds
    if timeout > ceiling:
        raise CommandError(
            f"--timeout {timeout:g}: no run may take more than {ceiling:g} seconds",
            hint="raise run.wall_ceiling_seconds in the settings",
        )
    if not timeout > 0:  # NaN too
        raise CommandError(
            f"--timeout {timeout:g} is no time to run in",
            hint=f"give more than 0 and at most {ceiling:g} seconds, or leave it out for {usual.wall_seconds:g}",
        )
    return replace(usual, wall_seconds=timeout)


def output_directory(path: Path) -> Path:
    """Returns where collected files go, which need not be there yet; raises RequestError where it cannot be.

    Looked at before anything starts, because what a run has made is lost when it cannot be saved.
    """
    directory = path.absolute()
    existing = next(place for place in (directory, *directory.parents) if os.path.lexists(place))
    if not existing.is_dir():
        raise RequestError(f"--out-dir {path}: {existing} is not a directory")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise RequestError(f"--out-dir {path}: {existing} is not yours to write to")
    return directory
