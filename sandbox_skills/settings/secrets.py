"""Secrets that a policy grants, from files that are nobody else's, else from the environment. Blocking."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sandbox_skills.catalog.regular_file import open_regular
from sandbox_skills.errors import InputError, SettingsError
from sandbox_skills.settings.environment import process_environment, read_env_file, read_text
from sandbox_skills.telemetry import MIN_SECRET

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from sandbox_skills.settings.policy_section import SecretsSettings

OTHERS = 0o077
"""Rights of a file that anybody but its owner has."""


def secret_values(
    where: SecretsSettings, names: Iterable[str], environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Returns the values of those secrets that there are: of a name, the folder's, else the file's, else the variable.

    Raises SettingsError for a file that others can read or that is another user's, and for a value that is too short
    to be kept out of outputs.
    """
    wanted = sorted(set(names))
    variables = process_environment(environ)
    values = {name: variables[name] for name in wanted if variables.get(name)}
    if where.file is not None and wanted:
        given = _variables(where.file)
        values |= {name: given[name] for name in wanted if name in given}
    if where.folder is not None:
        values |= {name: text for name in wanted if (text := _text(where.folder / name)) is not None}
    for name, value in values.items():
        if len(value.strip()) < MIN_SECRET:
            raise SettingsError(
                f"the secret {name} has less than {MIN_SECRET} characters, too few to be told from other text",
                hint="give it as a variable of the rule's env where it is no secret",
            )
    return values


def _variables(path: Path) -> dict[str, str]:
    _check_private(path)
    try:
        return read_env_file(path)
    except InputError as error:
        raise SettingsError(error.message, hint="give one NAME=VALUE a line") from error


def _text(path: Path) -> str | None:
    """Returns what is in the file of one secret, without the line end of an editor; None where there is none."""
    if not os.path.lexists(path):
        return None
    _check_private(path)
    try:
        return read_text(path).removesuffix("\n").removesuffix("\r")
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path}: cannot be read: {error}") from error


def _check_private(path: Path) -> None:
    try:
        descriptor, status = open_regular(path)
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror or error}") from error
    os.close(descriptor)
    if status.st_uid not in {os.geteuid(), 0}:
        raise SettingsError(f"{path}: belongs to another user", hint="keep secrets in a file of your own")
    if status.st_mode & OTHERS:
        raise SettingsError(f"{path}: others can read it", hint=f"chmod 600 {path}")
