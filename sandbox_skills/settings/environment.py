"""The process's environment and `--env-file` files: nothing else in the package reads the environment."""

from __future__ import annotations

import os
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_skills.catalog.regular_file import read_regular
from sandbox_skills.errors import InputError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MAX_FILE_BYTES = 1024 * 1024
"""Longest settings or env file: the kernel takes about 2 MiB of environment, settings are far shorter."""


def process_environment(environ: Mapping[str, str] | None = None) -> Mapping[str, str]:
    """Returns `environ`, or the process's own variables for None."""
    return os.environ if environ is None else environ


def current_directory() -> Path:
    """Returns where the user stands; raises SettingsError where that is gone."""
    try:
        return Path.cwd()
    except OSError as error:
        raise SettingsError(
            f"the current directory cannot be used: {error.strerror}", hint="change to one that is there"
        ) from error


def job_summary_file(environ: Mapping[str, str] | None = None) -> Path | None:
    """Returns the file whose Markdown GitHub shows beside a job, None where this is no step of one."""
    name = process_environment(environ).get("GITHUB_STEP_SUMMARY")
    return Path(name) if name else None


def outside_of_git_hooks(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns the variables without those that tell Git which repository it is in, as a hook has them."""
    variables = process_environment(environ)
    return {name: value for name, value in variables.items() if name not in _OF_ONE_REPOSITORY}


_OF_ONE_REPOSITORY = frozenset({
    "GIT_COMMON_DIR", "GIT_DIR", "GIT_INDEX_FILE", "GIT_NAMESPACE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX",
    "GIT_WORK_TREE", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
})  # fmt: skip


def is_ci(environ: Mapping[str, str] | None = None) -> bool:
    """Tells whether this is a job of a CI system, by the variable that all of them set."""
    return process_environment(environ).get("CI", "").casefold() not in {"", "0", "false"}


def caller_environment(names: Iterable[str], environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns the named variables of the caller's environment; raises InputError for one that is not set."""
    variables = process_environment(environ)
    wanted = tuple(names)
    if missing := [name for name in wanted if name not in variables]:
        raise InputError(f"not set in the environment: {', '.join(missing)}")
    return {name: variables[name] for name in wanted}


def read_env_file(path: Path) -> dict[str, str]:
    """Returns the variables of an `--env-file`: `KEY=VALUE` lines, `#` comments, quotes; nothing is expanded.

    Raises InputError, with the line where there is one.
    """
    try:
        text = read_text(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    from dotenv.parser import parse_stream  # noqa: PLC0415  # slow to import, and few commands read such a file

    values: dict[str, str] = {}
    for binding in parse_stream(StringIO(text)):
        if binding.error or (binding.key is not None and binding.value is None):
            raise InputError(f"{path}:{binding.original.line}: not KEY=VALUE")
        if binding.key is not None:
            values[binding.key] = binding.value or ""
    return values


def read_text(path: Path) -> str:
    """Returns a regular UTF-8 file of at most MAX_FILE_BYTES; raises OSError or ValueError."""
    if str(path) == os.devnull:
        return ""  # what people name for no file at all
    return read_regular(path, MAX_FILE_BYTES).decode("utf-8-sig")
