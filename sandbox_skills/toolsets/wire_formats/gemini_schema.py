"""JSON Schema as far as Gemini knows it: a subset of OpenAPI's. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox_skills.catalog.manifest_json import JsonObject, JsonValue

_KEPT = frozenset(
    {
        "type",
        "format",
        "title",
        "description",
        "nullable",
        "enum",
        "maxItems",
        "minItems",
        "properties",
        "required",
        "minProperties",
        "maxProperties",
        "minLength",
        "maxLength",
        "pattern",
        "default",
        "anyOf",
        "items",
        "minimum",
        "maximum",
    }
)
"""Fields of its `Schema` message; any other fails the whole request. The server checks every argument anyway."""

_FORMATS = frozenset({"float", "double", "int32", "int64", "enum", "date-time"})


def gemini_schema(schema: JsonObject) -> JsonObject:
    """Returns a schema without what Gemini does not know; it takes at least what the given one takes."""
    plain = _one_type(_without_const({**schema}))
    if isinstance(choices := plain.pop("oneOf", None), list):
        plain.setdefault("anyOf", choices)
    kept = {key: _below(key, value) for key, value in plain.items() if key in _KEPT}
    if kept.get("format") not in _FORMATS:
        kept.pop("format", None)
    if "enum" in kept and not _is_text_enum(kept):
        del kept["enum"]
    if not kept.get("properties"):
        kept.pop("properties", None)
        kept.pop("required", None)
    return kept


def _below(key: str, value: JsonValue) -> JsonValue:
    if key == "properties" and isinstance(value, dict):
        return {name: _schema(below) for name, below in value.items()}
    if key == "items":
        return _schema(value)
    if key == "anyOf" and isinstance(value, list):
        return [_schema(choice) for choice in value]
    return value


def _schema(value: JsonValue) -> JsonValue:
    # `true` as a schema takes anything; so does one that says nothing.
    return gemini_schema(value) if isinstance(value, dict) else {}


def _without_const(schema: JsonObject) -> JsonObject:
    if "const" not in schema:
        return schema
    value = schema.pop("const")
    return {"enum": [value], "type": "string", **schema} if isinstance(value, str) else schema


def _one_type(schema: JsonObject) -> JsonObject:
    """Returns a schema whose type is one name: a list becomes `nullable`, and a choice where more than one is left."""
    types = schema.get("type")
    if not isinstance(types, list):
        return schema
    rest = {key: value for key, value in schema.items() if key != "type"}
    if "null" in types:
        rest["nullable"] = True
    real = [name for name in types if name != "null"]
    if len(real) == 1:
        return {**rest, "type": real[0]}
    choices: list[JsonValue] = [{"type": name} for name in real]
    return {**rest, "anyOf": choices} if choices else rest


def _is_text_enum(schema: JsonObject) -> bool:
    values = schema["enum"]
    return (
        schema.get("type") == "string"
        and isinstance(values, list)
        and all(isinstance(v, str) and v for v in values)
    )
