"""Results as each provider takes them back. Pure."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from sandbox_skills.catalog.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sandbox_skills.catalog.manifest_json import JsonObject
    from sandbox_skills.toolsets.base import ToolCall, ToolResult
    from sandbox_skills.toolsets.wire_formats.definitions import WireFormat
    from sandbox_skills.toolsets.wire_formats.names import ToolNames


META = "sandbox-skills/result"
"""Under which an MCP result has, beside what a model reads, what a program may want to know of it."""


def result_item(call: ToolCall, result: ToolResult, wire_format: WireFormat, names: ToolNames) -> JsonObject:
    """Returns what answers a call: an input item (responses), a message (chat), a block of a user's message
    (anthropic), a part (gemini), or the result of a request (mcp).
    """
    return _WRITERS[wire_format](call, result, names)


def _responses(call: ToolCall, result: ToolResult, _names: ToolNames) -> JsonObject:
    return {"type": "function_call_output", "call_id": call.id, "output": printable(result.text)}


def _chat(call: ToolCall, result: ToolResult, _names: ToolNames) -> JsonObject:
    return {"role": "tool", "tool_call_id": call.id, "content": printable(result.text)}


def _anthropic(call: ToolCall, result: ToolResult, _names: ToolNames) -> JsonObject:
    return {
        "type": "tool_result",
        "tool_use_id": call.id,
        "content": printable(result.text),
        "is_error": result.is_error,
    }


def _gemini(call: ToolCall, result: ToolResult, names: ToolNames) -> JsonObject:
    # Gemini reads `output` and `error` where an answer is no object of its own.
    key = "error" if result.is_error else "output"
    content = result.content
    response: JsonObject = content if isinstance(content, dict) else {key: content}
    answer: JsonObject = {"name": names.spell(call.name), "response": response}
    return {"functionResponse": {**answer, "id": call.id} if call.id else answer}


def _mcp(_call: ToolCall, result: ToolResult, _names: ToolNames) -> JsonObject:
    answer: JsonObject = {
        "content": [{"type": "text", "text": printable(result.text)}],
        "isError": result.is_error,
        "_meta": {META: _meta(result)},
    }
    return {**answer, "structuredContent": result.content} if isinstance(result.content, dict) else answer


def _meta(result: ToolResult) -> JsonObject:
    return {
        "status": result.status,
        "code": result.code,
        "display": printable(result.display),
        "artifacts": [printable(one.ref) for one in result.artifacts],
    }


_WRITERS: Mapping[WireFormat, Callable[[ToolCall, ToolResult, ToolNames], JsonObject]] = MappingProxyType(
    {"responses": _responses, "chat": _chat, "anthropic": _anthropic, "gemini": _gemini, "mcp": _mcp}
)
