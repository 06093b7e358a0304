"""Reading values of a stranger's JSON: of the type that is asked for, or nothing. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

from sandbox_skills.catalog.text import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox_skills.catalog.manifest_json import JsonObject


def _no_number(_name: str) -> None:
    """Stands in for NaN and infinities, which are no JSON and would be refused when sent again."""


_HALF = "\\ud"
"""How the escape of a half begins, and of some whole characters."""

_DECODER = json.JSONDecoder(parse_constant=_no_number)


def parsed(text: str | bytes) -> object:
    """Returns what JSON text holds, None where it is none."""
    try:
        plain = text if isinstance(text, str) else text.decode()
        value = cast("object", _DECODER.decode(plain))
        return without_halves(value) if _HALF in plain.lower() else value
    except (ValueError, RecursionError):
        return None


def without_halves(value: object) -> object:
    """Returns JSON in which halves of characters, which no UTF-8 can spell, are U+FFFD."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [without_halves(one) for one in cast("list[object]", value)]
    if isinstance(value, dict):
        pairs = cast("dict[str, object]", value).items()
        return {printable(key): without_halves(one) for key, one in pairs}
    return value


def object_of(value: object) -> JsonObject:
    """Returns an object, an empty one for anything else."""
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def objects_of(value: object) -> list[JsonObject]:
    """Returns the objects of a list, none for anything else."""
    found = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("JsonObject", one) for one in found if isinstance(one, dict)]


def text_at(values: Mapping[str, object], key: str) -> str:
    """Returns a text, "" for anything else."""
    value = values.get(key)
    return value if isinstance(value, str) else ""


def count_at(values: Mapping[str, object], key: str) -> int:
    """Returns a whole number that is not negative, 0 for anything else."""
    value = values.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def number_at(values: Mapping[str, object], key: str) -> float | None:
    """Returns a number, which some servers write as text; None for anything else."""
    value = values.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if abs(number) < float("inf") else None  # false for NaN, too
