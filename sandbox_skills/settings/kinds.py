"""Kinds of values of settings, and what their annotations are made of: pydantic reads them when a setting is given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, cast

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from sandbox_skills.checked.kinds import Count, Seconds, Size
from sandbox_skills.settings.paths import is_absolute_path
from sandbox_skills.toolsets.workspace_tools.names import Profile

__all__ = [
    "AbsolutePath",
    "Annotated",
    "Count",
    "Days",
    "Field",
    "JsonText",
    "Profile",
    "Seconds",
    "SecretStr",
    "Size",
    "Words",
]


def _absolute(path: Path) -> Path:
    if not is_absolute_path(path):
        raise ValueError("must be an absolute path")
    return path


AbsolutePath = Annotated[Path, AfterValidator(_absolute)]


Days = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def _words(value: object) -> object:
    return [word for word in value.replace(",", " ").split() if word] if isinstance(value, str) else value


Words = BeforeValidator(_words)
"""Takes one text, as a variable is, for the list of its words."""


def _json(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return cast("object", json.loads(value))
    except ValueError as error:
        raise ValueError("must be a JSON object") from error


JsonText = Annotated[dict[str, object], BeforeValidator(_json)]
"""An object, as JSON in text."""
