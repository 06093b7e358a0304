"""Arguments of built-in tools: one pydantic model is the schema a model sees, and the check of what it sends."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError

from sandbox_skills.catalog.text import one_line
from sandbox_skills.errors import ToolCallError, Violation

if TYPE_CHECKING:
    from sandbox_skills.catalog.manifest_json import JsonObject
    from sandbox_skills.toolsets.base import ToolCall

MAX_VIOLATIONS = 10
"""As many as a model corrects at once."""

_MAX_SHOWN = 200
"""Characters of one violation."""


class Arguments(BaseModel):
    """What one tool takes. A description of a field is what the model reads; unknown arguments are an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


A = TypeVar("A", bound=BaseModel)


def read_arguments(model: type[A], call: ToolCall) -> A:
    """Returns the arguments of a call; raises ToolCallError with every violation and the names there are."""
    given: object = call.arguments
    if not isinstance(given, dict):
        raise ToolCallError(call.name, [_no_object(given)], hint=_parameters(model))
    try:
        return model.model_validate(given)
    except ValidationError as error:
        found = [
            Violation(_place(row["loc"]), one_line(str(row["msg"]), _MAX_SHOWN)) for row in error.errors()
        ]
    except RecursionError:
        found = [Violation("", "the arguments are nested too deeply")]
    raise ToolCallError(call.name, found[:MAX_VIOLATIONS], hint=_parameters(model))


def schema_of(model: type[BaseModel]) -> JsonObject:
    """Returns the JSON Schema of a model, the caller's own copy, without titles, references and null types."""
    schema = model.model_json_schema()
    definitions = cast("dict[str, Any]", schema.pop("$defs", {}))
    plain = cast("JsonObject", _plain(schema, definitions))
    plain.pop("description", None)
    return {**plain, "properties": plain.get("properties", {}), "required": plain.get("required", [])}


def _parameters(model: type[BaseModel]) -> str:
    names = ", ".join(model.model_fields)
    return f"The parameters are: {names}." if names else "It takes no parameters."


def _no_object(arguments: object) -> Violation:
    """Tells of what is no object: a text is one that could not be read, and is shown."""
    if isinstance(arguments, str):
        return Violation("", f"the arguments are not JSON: {one_line(arguments, _MAX_SHOWN)!r}")
    return Violation("", f"the arguments are a {type(arguments).__name__}, not an object")


def _place(path: tuple[int | str, ...]) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return one_line(text.removeprefix("."), _MAX_SHOWN)


def _plain(node: object, definitions: dict[str, Any]) -> object:
    """Returns a schema as the strictest provider takes it: some know neither `$ref` nor `anyOf` with null."""
    if isinstance(node, list):
        return [_plain(item, definitions) for item in cast("list[object]", node)]
    if not isinstance(node, dict):
        return node
    schema = dict(cast("dict[str, object]", node))
    if isinstance(reference := schema.pop("$ref", None), str):
        schema = {**copy.deepcopy(definitions[reference.rpartition("/")[2]]), **schema}
    if isinstance(schema.get("title"), str):
        del schema["title"]
    schema = {key: _plain(value, definitions) for key, value in schema.items()}
    return _without_null(schema)


def _without_null(schema: dict[str, object]) -> dict[str, object]:
    choices = schema.get("anyOf")
    if not isinstance(choices, list):
        return schema
    real = [choice for choice in cast("list[dict[str, object]]", choices) if choice != {"type": "null"}]
    if len(real) != 1:
        return {**schema, "anyOf": real}
    rest = {key: value for key, value in schema.items() if key != "anyOf" and value is not None}
    return {**real[0], **rest}
