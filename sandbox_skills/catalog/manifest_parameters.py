"""`parameters` of a tool, in either form, → one JSON Schema for each parameter. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sandbox_skills.catalog.manifest_findings import listed
from sandbox_skills.catalog.manifest_schema import TYPES, fits, keep_usable, type_names
from sandbox_skills.catalog.rules import Rule

if TYPE_CHECKING:
    from sandbox_skills.catalog.manifest_findings import Place
    from sandbox_skills.catalog.manifest_json import JsonObject, JsonValue

WORK_DIR = "__workDir"
"""The argument that the runtime adds to every call: the working directory in the sandbox."""

MAX_PARAMETERS = 100
"""Ten times what a model fills in reliably, and what OpenAI's strict mode took at first."""

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""What Anthropic's API takes as the name of a property; one that it does not take fails the whole request."""

_SCHEMA_KEYS = frozenset(
    {"$schema", "type", "title", "description", "properties", "required", "additionalProperties"}
)

_CHOICES = ("enum", "const", "anyOf", "oneOf", "allOf")
"""Keywords that say what is allowed as well as a type does."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """`schemas` has one JSON Schema for each name; `required` is in the same order."""

    schemas: dict[str, JsonObject] = field(default_factory=dict[str, "JsonObject"])
    required: tuple[str, ...] = ()


def read_parameters(value: JsonValue, at: Place) -> Parameters:
    """Returns what a tool takes; what is wrong with it is said at `at`, an error where the tool cannot be used."""
    if value is None:
        return Parameters()
    if not isinstance(value, dict):
        at.say(Rule.TOOL_PARAMETERS_INVALID)
        return Parameters()
    required: list[str] | None = None
    if _is_schema(value):
        value, required = _properties(value, at)
    if len(value) > MAX_PARAMETERS:
        at.say(Rule.TOOL_PARAMETERS_INVALID, f"there are {len(value):,}")
        return Parameters()
    schemas: dict[str, JsonObject] = {}
    needed: list[str] = []
    for name, definition in value.items():
        if not _usable_name(name, at.below(name)):
            continue
        schemas[name], optional = _parameter(definition, at.below(name))
        if not optional and (required is None or name in required):
            needed.append(name)
    return Parameters(schemas, tuple(needed))


def _is_schema(value: JsonObject) -> bool:
    """Whether this is a whole JSON Schema: in the manifest's own form every value is an object."""
    return isinstance(value.get("type"), str) or isinstance(value.get("required"), list) or "$schema" in value


def _properties(schema: JsonObject, at: Place) -> tuple[JsonObject, list[str]]:
    at.say(Rule.TOOL_PARAMETERS_SCHEMA)
    if other := set(schema) - _SCHEMA_KEYS:
        at.say(Rule.PARAMETER_KEYWORD, listed(other))
    properties = schema.get("properties", {})
    required = schema.get("required", [])
    if schema.get("type", "object") != "object" or not isinstance(properties, dict):
        at.say(Rule.TOOL_PARAMETERS_INVALID, "the schema is not one of an object")
        return {}, []
    names = required if isinstance(required, list) else []
    return properties, [name for name in names if isinstance(name, str)]


def _usable_name(name: str, at: Place) -> bool:
    if name == WORK_DIR:
        at.say(Rule.PARAMETER_WORK_DIR)
        return False
    if not _NAME.fullmatch(name):
        at.say(Rule.PARAMETER_NAME)
        return False
    return True


def _parameter(definition: JsonValue, at: Place) -> tuple[JsonObject, bool]:
    """Returns the schema of a parameter and whether it may be left out."""
    if not isinstance(definition, dict):
        at.say(Rule.PARAMETER_NOT_OBJECT)
        return {}, False
    dropped: set[str] = set()
    schema = keep_usable({key: value for key, value in definition.items() if key != "optional"}, dropped)
    _check_type(definition, schema, at)
    if "enum" in definition:
        _check_enum(schema, at)
    description = schema.get("description")
    if not (isinstance(description, str) and description.strip()):
        at.say(Rule.PARAMETER_DESCRIPTION)
    if other := dropped - {"type", "enum", "description"}:
        at.say(Rule.PARAMETER_KEYWORD, listed(other))
    return schema, _optional(definition, at)


def _check_type(definition: JsonObject, schema: JsonObject, at: Place) -> None:
    chosen = any(keyword in schema for keyword in _CHOICES)
    if "type" not in schema and ("type" in definition or not chosen):
        at.say(Rule.PARAMETER_TYPE)
    elif not (isinstance(name := schema.get("type"), str) and name in TYPES):
        at.say(Rule.PARAMETER_TYPE_EXTRA)


def _check_enum(schema: JsonObject, at: Place) -> None:
    values = schema.get("enum")
    types = type_names(schema.get("type"))
    if not isinstance(values, list) or not (
        not types or any(fits(value, name) for value in values for name in types)
    ):
        at.say(Rule.PARAMETER_ENUM)


def _optional(definition: JsonObject, at: Place) -> bool:
    optional = definition.get("optional", False)
    if not isinstance(optional, bool):
        at.say(Rule.PARAMETER_OPTIONAL)
    return optional is True
