"""JSON Schema of a tool's arguments → a pydantic model, for libraries that take typed functions. Pure."""

from __future__ import annotations

import copy
from types import GenericAlias, MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox_skills.catalog.manifest_json import JsonObject, JsonValue
    from sandbox_skills.toolsets.base import Tool

_TYPES: Mapping[str, Any] = MappingProxyType(
    {"string": str, "integer": int, "number": float, "boolean": bool, "object": dict[str, Any], "null": None}
)


def input_model(tool: Tool) -> type[BaseModel]:
    """Returns a model of a tool's arguments; its JSON Schema is the tool's own, word for word.

    It checks types and what must be there; the tool checks the rest itself. Fields have the parameters' names as
    aliases: not every name can be an attribute.
    """
    schema = tool.parameters
    properties = schema.get("properties")
    required = schema.get("required")
    needed = required if isinstance(required, list) else []
    fields = {
        f"argument_{index}": _field(name, below, needed=name in needed)
        for index, (name, below) in enumerate(properties.items() if isinstance(properties, dict) else ())
    }
    config = ConfigDict(extra="forbid", json_schema_extra=lambda shown: _replace(shown, schema))
    untyped: Any = create_model
    model: type[BaseModel] = untyped(tool.name, __config__=config, **fields)
    return model


def arguments_of(model: BaseModel) -> dict[str, Any]:
    """Returns what a model was given, by the parameters' names."""
    return model.model_dump(by_alias=True, exclude_unset=True)


def _replace(shown: dict[str, Any], schema: JsonObject) -> None:
    shown.clear()
    shown.update(copy.deepcopy(schema))


def _field(name: str, schema: JsonValue, *, needed: bool) -> tuple[Any, Any]:
    kind = _type(schema)
    return (kind, Field(alias=name)) if needed else (kind | None, Field(default=None, alias=name))


def _type(schema: JsonValue) -> Any:  # noqa: ANN401  # a type that is only known now
    if not isinstance(schema, dict):
        return Any
    values = schema.get("enum")
    if isinstance(values, list) and values and all(isinstance(value, (str, int, bool)) for value in values):
        return Literal[tuple(values)]
    kind = schema.get("type")
    if kind == "array":
        return GenericAlias(list, (_type(schema.get("items", True)),))
    return _TYPES.get(kind, Any) if isinstance(kind, str) else Any
