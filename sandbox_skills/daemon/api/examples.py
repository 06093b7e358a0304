"""Examples in the OpenAPI document: what a model does not show itself is made of the examples of its parts. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import JsonValue

REFERENCE = "#/components/schemas/"

NULL = {"type": "null"}


def complete(schemas: dict[str, Any]) -> None:
    """Gives every schema an example that has none, as far as its parts have theirs.

    In those that are there, nulls that must be are put back: FastAPI leaves every null out of its document.
    """
    for schema in schemas.values():
        if made := _made(schema, schemas):
            schema.pop("example", None)
            schema["examples"] = made


def _made(schema: dict[str, Any], schemas: dict[str, Any]) -> list[Any]:
    """Returns one example, in a list; an empty one where a part of it has none."""
    if "$ref" in schema:
        return _made(_meant(schema, schemas), schemas)
    if own := _own(schema):
        return [_with_nulls(own[0], schema, schemas)]
    if only := _only(schema):
        return only
    if schema.get("type") == "array":
        return [_made(schema["items"], schemas)]
    return _object(schema, schemas)


def _meant(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema that one refers to, as the only one or beside null."""
    choices = [one for one in schema.get("anyOf", [schema]) if one != NULL]
    name = choices[0].get("$ref", "").removeprefix(REFERENCE)
    meant: dict[str, Any] = schemas.get(name, schema) if len(choices) == 1 else schema
    return meant


def _own(schema: dict[str, Any]) -> list[Any]:
    """Returns the one example that a schema shows itself, in a list; an empty one without."""
    if "example" in schema:
        return [schema["example"]]
    return list(schema.get("examples", ()))[:1]


def _only(schema: dict[str, Any]) -> list[Any]:
    """Returns the value that a schema names as its only or usual one, in a list; an empty one without."""
    if NULL in schema.get("anyOf", ()):
        return [None]
    return [schema[word] for word in ("const", "default") if word in schema][:1] or schema.get("enum", [])[:1]


def _object(schema: dict[str, Any], schemas: dict[str, Any]) -> list[Any]:
    """Returns an object with what it must have."""
    if "properties" not in schema:
        return []
    parts = {name: _made(schema["properties"][name], schemas) for name in schema.get("required", ())}
    if not all(parts.values()):
        return []
    return [{name: example[0] for name, example in parts.items()}]


def _with_nulls(value: JsonValue, schema: dict[str, Any], schemas: dict[str, Any]) -> JsonValue:
    """Returns an example with the nulls that its schema demands, in its parts too."""
    meant = _meant(schema, schemas)
    if isinstance(value, list):
        return [_with_nulls(one, meant.get("items", {}), schemas) for one in value]
    if not isinstance(value, dict):
        return value
    known = meant.get("properties", {})
    nulls = [name for name in meant.get("required", ()) if NULL in known[name].get("anyOf", ())]
    given = {name: _with_nulls(one, known.get(name, {}), schemas) for name, one in value.items()}
    return dict.fromkeys(nulls) | given
