"""The process's environment and `--env-file` files: nothing else in the package reads the environment."""

from __future__ import annotations

import os
from io import StringIO
from typing import TYPE_CHECKING

from dotenv.parser import parse_stream

from sandbox_skills.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

MAX_FILE_BYTES = 1024 * 1024
"""Longest settings or env file: the kernel takes about 2 MiB of environment, settings are far shorter."""


def process_environment(environ: Mapping[str, str] | None = None) -> Mapping[str, str]:
    """Returns `environ`, or the process's own variables for None."""
    return os.environ if environ is None else environ


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
    values: dict[str, str] = {}
    for binding in parse_stream(StringIO(text)):
        if binding.error or (binding.key is not None and binding.value is None):
            raise InputError(f"{path}:{binding.original.line}: not KEY=VALUE")
        if binding.key is not None:
            values[binding.key] = binding.value or ""
    return values


def read_text(path: Path) -> str:
    """Returns a UTF-8 file of at most MAX_FILE_BYTES; raises OSError or ValueError."""
    with path.open("rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"longer than {MAX_FILE_BYTES} bytes")
    return data.decode("utf-8-sig")
