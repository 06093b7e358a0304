"""The JSON Schema of a file of cases, with which editors complete and check it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from sandbox_skills.ci.suite import Suite

if TYPE_CHECKING:
    from sandbox_skills.catalog.manifest_json import JsonObject, JsonValue

DIALECT = "https://json-schema.org/draft/2020-12/schema"
"""Only names the format; nothing is fetched from there."""

_PLACEHOLDER: JsonObject = {"type": "string", "pattern": r"^\{\{\s*[A-Za-z_]\w*\s*\}\}$"}
"""What a case with a matrix may have in place of a number or a boolean."""

_FILLED = frozenset({"integer", "number", "boolean", "array"})

_TEXT: tuple[JsonValue, ...] = ("string", "number", "boolean")
"""What may stand where text is meant: without quotes it is the text that it is written as."""


def suite_schema() -> JsonObject:
    """Returns the schema of `tests/*.yaml`."""
    schema = cast("JsonObject", Suite.model_json_schema(by_alias=True))
    return {"$schema": DIALECT, **cast("JsonObject", _with_placeholders(schema))}


def _with_placeholders(value: JsonValue) -> JsonValue:
    if isinstance(value, list):
        return [_with_placeholders(one) for one in value]
    if not isinstance(value, dict):
        return value
    inner = {key: _with_placeholders(one) for key, one in value.items()}
    if inner.get("type") == "string" and not inner.keys() & {"enum", "const", "pattern"}:
        return {**inner, "type": [*_TEXT]}
    if inner.get("type") not in _FILLED:
        return inner
    about: JsonObject = {key: inner.pop(key) for key in ("title", "description", "default") if key in inner}
    return {"anyOf": [inner, dict(_PLACEHOLDER)], **about}
