"""Reading values of a stranger's JSON: of the type that is asked for, or nothing. Pure."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, cast

from sandbox_skills.catalog.text import one_line, printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox_skills.catalog.manifest_json import JsonObject


def _no_number(_name: str) -> None:
    """Stands in for NaN and infinities, which are no JSON and would be refused when sent again."""


def _number(text: str) -> float | None:
    """Reads a number with a point or an exponent; one that is too large is no number, as above."""
    number = float(text)
    return number if math.isfinite(number) else None


_HALF = "\\ud"
"""How the escape of a half begins, and of some whole characters."""

MAX_DEPTH = 100
"""Levels of JSON inside one another. What is read is written again deeper in our own stack, which ends at a thousand,
and a saved conversation is read to 200 levels; answers have about ten."""

_DECODER = json.JSONDecoder(parse_constant=_no_number, parse_float=_number)


def parsed(text: str | bytes) -> object:
    """Returns what JSON text holds, None where it is none, or deeper than `MAX_DEPTH`."""
    try:
        plain = text if isinstance(text, str) else text.decode()
        value = cast("object", _DECODER.decode(plain))
    except (ValueError, RecursionError):
        return None
    if plain.count("[") + plain.count("{") > MAX_DEPTH and is_too_deep(value):
        return None
    return without_halves(value) if _HALF in plain.lower() else value


def is_too_deep(value: object) -> bool:
    """Tells whether lists and objects stand in one another deeper than `MAX_DEPTH`."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for one in level for inner in _inside(one)]
        if not level:
            return False
    return True


def _inside(value: object) -> list[object]:
    """Returns the lists and objects that stand in a value."""
    if isinstance(value, dict):
        inner = list(cast("dict[str, object]", value).values())
    else:
        inner = cast("list[object]", value) if isinstance(value, list) else []
    return [one for one in inner if isinstance(one, dict | list)]


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


MAX_NAME = 200
"""Characters of a name that is shown and kept: of a model, of an answer, of why one was cut."""


def name_at(values: Mapping[str, object], key: str) -> str:
    """Returns a text that is a name, on one line and not longer than one."""
    return one_line(text_at(values, key), MAX_NAME)


MAX_COUNT = 2**53
"""The largest whole number that every reader of JSON has (RFC 8259, 6); sums of larger ones may not even be printed."""


def count_at(values: Mapping[str, object], key: str) -> int:
    """Returns a whole number that is not negative and at most `MAX_COUNT`, 0 for anything else."""
    value = values.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_COUNT else 0


def cost_at(values: Mapping[str, object], key: str) -> float:
    """Returns an amount that is not negative and whose sums stay numbers, 0 for anything else."""
    cost = number_at(values, key)
    return cost if cost is not None and 0 < cost <= MAX_COUNT else 0.0


def number_at(values: Mapping[str, object], key: str) -> float | None:
    """Returns a number, which some servers write as text; None for anything else."""
    value = values.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
