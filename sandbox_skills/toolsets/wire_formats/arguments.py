"""Arguments of a call as providers send them: JSON text of a model that may have slipped. Pure."""

from __future__ import annotations

import json
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
        values = _documents(raw)
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


def _documents(text: str) -> list[JsonValue]:
    decoder = json.JSONDecoder(parse_constant=_no_constant)
    values: list[JsonValue] = []
    rest = text.strip()
    while rest:
        value, end = decoder.raw_decode(rest)
        values.append(value)
        rest = rest[end:].lstrip()
    return values


def _no_constant(name: str) -> JsonValue:
    raise ValueError(name)
