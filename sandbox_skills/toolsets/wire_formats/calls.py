"""Calls as each provider sends them → ToolCall. Pure: what a model wrote is a stranger's word and is only carried."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from sandbox_skills.toolsets.base import ToolCall
from sandbox_skills.toolsets.wire_formats.arguments import decoded_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sandbox_skills.toolsets.wire_formats.definitions import WireFormat
    from sandbox_skills.toolsets.wire_formats.names import ToolNames

Fields = Mapping[str, object]


def read_calls(
    items: Iterable[object] | None, wire_format: WireFormat, names: ToolNames
) -> tuple[ToolCall, ...]:
    """Returns the calls among the items of an answer, in their order; other items, such as text, are passed over.

    Items are `output` (responses), `message.tool_calls` (chat), `content` (anthropic), `parts` (gemini), or the
    parameters of requests (mcp): mappings, or the objects of a provider's library.
    """
    read = _READERS[wire_format]
    found = (read(fields) for fields in map(_fields, items or ()))
    return tuple(
        ToolCall(names.read(call.name), decoded_arguments(call.arguments), call.id)
        for call in found
        if call is not None
    )


def _fields(item: object) -> Fields:
    """Returns what an item holds, whether it is plain JSON or an object with `model_dump`, as pydantic's have."""
    if isinstance(item, Mapping):
        return cast("Fields", item)
    dump = getattr(item, "model_dump", None)
    dumped: object = dump() if callable(dump) else None
    return cast("Fields", dumped) if isinstance(dumped, Mapping) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _responses(item: Fields) -> ToolCall | None:
    if item.get("type") != "function_call":
        return None
    return ToolCall(
        _text(item.get("name")), item.get("arguments"), _text(item.get("call_id")) or _text(item.get("id"))
    )


def _chat(item: Fields) -> ToolCall | None:
    kind = "custom" if item.get("type") == "custom" else "function"
    function = item.get(kind)
    if not isinstance(function, Mapping):
        return None
    called = cast("Fields", function)
    # A custom tool's input is free text, which no tool here takes: it is refused as arguments are.
    arguments = called.get("arguments") if kind == "function" else called.get("input")
    return ToolCall(_text(called.get("name")), arguments, _text(item.get("id")))


def _anthropic(item: Fields) -> ToolCall | None:
    if item.get("type") != "tool_use":
        return None
    return ToolCall(_text(item.get("name")), item.get("input"), _text(item.get("id")))


def _gemini(item: Fields) -> ToolCall | None:
    call = item.get("functionCall", item.get("function_call"))
    if not isinstance(call, Mapping):
        return None
    called = cast("Fields", call)
    return ToolCall(_text(called.get("name")), called.get("args"), _text(called.get("id")))


def _mcp(item: Fields) -> ToolCall | None:
    return ToolCall(_text(item.get("name")), item.get("arguments")) if "name" in item else None


_READERS: Mapping[WireFormat, Callable[[Fields], ToolCall | None]] = MappingProxyType(
    {"responses": _responses, "chat": _chat, "anthropic": _anthropic, "gemini": _gemini, "mcp": _mcp}
)
