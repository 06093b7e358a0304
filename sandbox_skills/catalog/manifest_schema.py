"""The part of JSON Schema that a parameter may use; the rest is dropped. Pure.

Kept is what needs nothing from elsewhere and is checked in time linear in a call: a `$ref` could be a loop or an
address, a `pattern` a stranger's regular expression that keeps the host busy for hours, `uniqueItems` is quadratic.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sandbox_skills.catalog.manifest_json import JsonObject, JsonValue

TYPES = frozenset({"string", "number", "boolean", "object", "array"})
"""What the Skill Tools specification names."""

ALL_TYPES = TYPES | {"integer", "null"}
"""What JSON Schema names."""


def keep_usable(schema: JsonObject, dropped: set[str]) -> JsonObject:
    """Returns `schema` with the keywords that are used here and make sense; adds the others to `dropped`.

    The result is valid JSON Schema (draft 2020-12) and allows at least what `schema` allows.
    """
    kept: JsonObject = {}
    for keyword, value in schema.items():
        if keyword in _PLAIN and _PLAIN[keyword](value):
            kept[keyword] = value
            continue
        usable = _NESTED[keyword](value, dropped) if keyword in _NESTED else None
        if usable is None:
            dropped.add(keyword)
        else:
            kept[keyword] = usable
    return kept


def type_names(value: JsonValue) -> tuple[str, ...]:
    """Returns the types that a `type` names; () where it cannot stand as one."""
    names = [value] if isinstance(value, str) else _texts(value)
    different = len(set(names)) == len(names)
    return tuple(names) if different and ALL_TYPES.issuperset(names) else ()


def fits(value: JsonValue, type_name: str) -> bool:
    """Whether `value` is of a type, as JSON Schema counts: `true` is no number, 1.0 is an integer."""
    match value:
        case None:
            return type_name == "null"
        case bool():
            return type_name == "boolean"
        case int() | float():
            return type_name == "number" or (type_name == "integer" and value == int(value))
        case str():
            return type_name == "string"
        case list():
            return type_name == "array"
        case _:
            return type_name == "object"


def _texts(value: JsonValue) -> list[str]:
    """Returns the items of a list of texts; nothing for anything else."""
    items = value if isinstance(value, list) else []
    texts = [item for item in items if isinstance(item, str)]
    return texts if len(texts) == len(items) else []


def _is_any(_value: JsonValue) -> bool:
    return True


def _is_text(value: JsonValue) -> bool:
    return isinstance(value, str)


def _is_number(value: JsonValue) -> bool:
    return fits(value, "number")


def _is_count(value: JsonValue) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_type(value: JsonValue) -> bool:
    return bool(type_names(value))


def _is_choice(value: JsonValue) -> bool:
    return isinstance(value, list) and bool(value)


def _is_names(value: JsonValue) -> bool:
    return isinstance(value, list) and len(set(_texts(value))) == len(value)


def _one(value: JsonValue, dropped: set[str]) -> JsonValue:
    if isinstance(value, bool):
        return value
    return keep_usable(value, dropped) if isinstance(value, dict) else None


def _several(value: JsonValue, dropped: set[str]) -> JsonValue:
    if not isinstance(value, list):
        return None
    read = [_one(item, dropped) for item in value]
    return read if read and None not in read else None


def _exactly_one(value: JsonValue, _dropped: set[str]) -> JsonValue:
    """A branch that lost a keyword allows more, so that two might fit where one did."""
    lost: set[str] = set()
    read = _several(value, lost)
    return None if lost else read


def _named(value: JsonValue, dropped: set[str]) -> JsonValue:
    if not isinstance(value, dict):
        return None
    read = {name: _one(item, dropped) for name, item in value.items()}
    if None in read.values():
        dropped.add("properties")
    return {name: True if item is None else item for name, item in read.items()}


_PLAIN: Mapping[str, Callable[[JsonValue], bool]] = MappingProxyType(
    {
        "type": _is_type,
        "title": _is_text,
        "description": _is_text,
        "format": _is_text,
        "default": _is_any,
        "const": _is_any,
        "examples": _is_choice,
        "enum": _is_choice,
        "required": _is_names,
        "minimum": _is_number,
        "maximum": _is_number,
        "exclusiveMinimum": _is_number,
        "exclusiveMaximum": _is_number,
        "minLength": _is_count,
        "maxLength": _is_count,
        "minItems": _is_count,
        "maxItems": _is_count,
        "minProperties": _is_count,
        "maxProperties": _is_count,
    }
)

_NESTED: Mapping[str, Callable[[JsonValue, set[str]], JsonValue]] = MappingProxyType(
    {
        "items": _one,
        "additionalProperties": _one,
        "properties": _named,
        "anyOf": _several,
        "allOf": _several,
        "oneOf": _exactly_one,
    }
)
"""None stands for a value that cannot be used: no schema is null."""
