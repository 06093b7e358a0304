"""Arguments of a call as providers send them: JSON text of a model that may have slipped. Pure."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox_skills.catalog.manifest_json import JsonValue


def decoded_arguments(raw: object) -> object:
    """Returns the arguments that `raw` spells: a dict where that can be read, else what a toolset will refuse.

    Nothing, blank text and null are no arguments. Of objects in a row, as some providers join them, empty and equal
    ones count once. Text that is no JSON is returned as it is.
    """
    if raw is None or (isinstance(raw, str) and not raw.strip()):
        return {}
    if not isinstance(raw, str):
        return raw
    try:
        values = documents(raw)
    except (ValueError, RecursionError):
        return raw
    if len(values) > 1:
        return _joined(values, raw)
    return {} if values[0] is None else values[0]


def _joined(values: list[JsonValue], raw: str) -> object:
    distinct: list[JsonValue] = []
    for value in values:
        if value != {} and value not in distinct:
            distinct.append(value)
    if len(distinct) > 1 or not all(isinstance(value, dict) for value in values):
        return raw
    return distinct[0] if distinct else {}


def replayable_arguments(raw: object) -> str:
    """Returns the arguments as a history may repeat them: JSON text of an object, `{}` for what was none.

    Providers refuse a whole request for one call whose arguments are not JSON.
    """
    arguments = decoded_arguments(raw)
    return json.dumps(arguments, ensure_ascii=False) if isinstance(arguments, dict) else "{}"


MAX_DOCUMENTS = 16
"""JSON values that one text of arguments may be made of: streams were seen to say one twice, or an empty one first."""

_SPACE = re.compile(r"\s*")


def documents(text: str) -> list[JsonValue]:
    """Returns the JSON values that a text is made of, in linear time.

    Raises ValueError for what is no JSON or more than `MAX_DOCUMENTS`, RecursionError for what is nested too deeply.
    """
    values: list[JsonValue] = []
    position = _after_space(text, 0)
    while position < len(text):
        if len(values) == MAX_DOCUMENTS:
            raise ValueError("too many values")
        value, end = _DECODER.raw_decode(text, position)
        values.append(value)
        position = _after_space(text, end)
    return values


def _after_space(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found else position


def _no_constant(name: str) -> JsonValue:
    raise ValueError(name)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text[:20])
    return number


_DECODER = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite)
