"""Paths of settings. Apart from pydantic, as most commands are given folders and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TypeGuard

from sandbox_skills.errors import SettingsError


def is_absolute_path(value: object) -> TypeGuard[Path]:
    """Tells whether a value is a path that can be used from anywhere."""
    return isinstance(value, Path) and value.is_absolute() and "\0" not in str(value)


def located(path: str | Path, base: Path, origin: str) -> Path:
    """Returns where a path leads from `base`, with `~` as the user's home; raises SettingsError for nobody's home."""
    try:
        return base / Path(path).expanduser()
    except RuntimeError as error:
        raise SettingsError(f"{origin}: {path}: {error}") from error
