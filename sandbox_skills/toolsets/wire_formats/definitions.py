"""Tools as each provider is told of them. Pure."""

from __future__ import annotations

import copy
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from sandbox_skills.toolsets.wire_formats.gemini_schema import gemini_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sandbox_skills.catalog.manifest_json import JsonObject
    from sandbox_skills.toolsets.base import Tool
    from sandbox_skills.toolsets.wire_formats.names import ToolNames

WireFormat = Literal["responses", "chat", "anthropic", "gemini", "mcp"]
"""OpenAI's and OpenRouter's Responses, Chat Completions, Anthropic's Messages, Gemini, the Model Context Protocol."""


def definitions(tools: Iterable[Tool], wire_format: WireFormat, names: ToolNames) -> list[JsonObject]:
    """Returns the definitions of tools, the caller's own copies, as a request of that format has them."""
    make = WIRE_FORMATS[wire_format]
    return [make(tool, names.spell(tool.name), copy.deepcopy(tool.parameters)) for tool in tools]


def _responses(tool: Tool, name: str, parameters: JsonObject) -> JsonObject:
    # OpenAI takes a missing `strict` for true, and then every parameter would have to be required.
    return {
        "type": "function",
        "name": name,
        "description": tool.description,
        "parameters": parameters,
        "strict": False,
    }


def _chat(tool: Tool, name: str, parameters: JsonObject) -> JsonObject:
    function: JsonObject = {"name": name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}


def _anthropic(tool: Tool, name: str, parameters: JsonObject) -> JsonObject:
    return {"name": name, "description": tool.description, "input_schema": parameters}


def _gemini(tool: Tool, name: str, parameters: JsonObject) -> JsonObject:
    declaration: JsonObject = {"name": name, "description": tool.description}
    # Gemini refuses an object without properties.
    return (
        {**declaration, "parameters": gemini_schema(parameters)}
        if parameters.get("properties")
        else declaration
    )


def _mcp(tool: Tool, name: str, parameters: JsonObject) -> JsonObject:
    definition: JsonObject = {
        "name": name,
        "description": tool.description,
        "inputSchema": parameters,
        "annotations": {"readOnlyHint": tool.effect == "read", "openWorldHint": False},
    }
    if tool.result is not None:
        definition["outputSchema"] = copy.deepcopy(tool.result)
    return definition


WIRE_FORMATS: Mapping[WireFormat, Callable[[Tool, str, JsonObject], JsonObject]] = MappingProxyType(
    {"responses": _responses, "chat": _chat, "anthropic": _anthropic, "gemini": _gemini, "mcp": _mcp}
)
"""Every format, and what makes a definition of a tool, its spelled name and its schema."""
