"""One request to a model, as both wires can be made of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from sandbox_skills.controller.defaults import MAX_OUTPUT_TOKENS

if TYPE_CHECKING:
    from sandbox_skills.catalog.manifest_json import JsonObject, JsonValue

MAX_CACHE_MARKS = 4
"""`cache_control` marks that Anthropic's models take in one request; they refuse a fifth."""


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool as a model is told of it; `parameters` is a JSON Schema of an object."""

    name: str
    description: str
    parameters: JsonObject = field(hash=False)


@dataclass(frozen=True, slots=True)
class NamedTool:
    """The choice of one tool."""

    name: str


ToolChoice = Literal["auto", "none", "required"] | NamedTool


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What is asked of a model. What is None or empty is not sent: servers refuse null for most fields.

    `fallbacks` are models that are tried after `model`; `provider` is OpenRouter's routing, `reasoning` its effort.
    `more` holds further fields of the body, as they are.
    """

    model: str
    items: tuple[JsonObject, ...] = field(hash=False)
    instructions: str = ""
    tools: tuple[ToolDefinition, ...] = ()
    tool_choice: ToolChoice = "auto"
    parallel_tool_calls: bool | None = None
    max_output_tokens: int = MAX_OUTPUT_TOKENS
    fallbacks: tuple[str, ...] = ()
    provider: JsonObject | None = field(default=None, hash=False)
    reasoning: JsonObject | None = field(default=None, hash=False)
    temperature: float | None = None
    session_id: str = ""
    more: JsonObject | None = field(default=None, hash=False)


def shared_fields(request: ModelRequest) -> JsonObject:
    """Returns the fields that both wires spell the same, without those that are not set."""
    fields: JsonObject = {
        "model": request.model,
        "models": [request.model, *request.fallbacks] if request.fallbacks else None,
        "parallel_tool_calls": request.parallel_tool_calls if request.tools else None,
        "provider": request.provider,
        "reasoning": request.reasoning,
        "temperature": request.temperature,
        "session_id": request.session_id or None,
        **(request.more or {}),
    }
    return {key: value for key, value in fields.items() if value is not None}


def with_few_marks(value: JsonValue, left: int = MAX_CACHE_MARKS) -> JsonValue:
    """Returns items with at most `left` marks of what is to be cached: the last ones, which cover the others."""
    return _unmarked(value, [_marks(value) - left])


def _marks(value: JsonValue) -> int:
    if isinstance(value, dict):
        return ("cache_control" in value) + sum(map(_marks, value.values()))
    return sum(map(_marks, value)) if isinstance(value, list) else 0


def _unmarked(value: JsonValue, excess: list[int]) -> JsonValue:
    """Returns the value without its first marks, as many as `excess` counts down."""
    if excess[0] <= 0:
        return value
    if isinstance(value, list):
        return [_unmarked(one, excess) for one in value]
    if not isinstance(value, dict):
        return value
    kept = dict(value)
    if kept.pop("cache_control", None) is not None:
        excess[0] -= 1
    return {key: _unmarked(one, excess) for key, one in kept.items()}
