"""Chat Completions as a wire: the history's items become messages, and an answer's message becomes items. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.controller.chat_answer import read_completion
from sandbox_skills.controller.chat_messages import messages_of
from sandbox_skills.controller.chat_stream import ChatAccumulator
from sandbox_skills.controller.request import NamedTool, shared_fields, with_few_marks

if TYPE_CHECKING:
    from sandbox_skills.catalog.manifest_json import JsonObject, JsonValue
    from sandbox_skills.controller.request import ModelRequest, ToolChoice, ToolDefinition
    from sandbox_skills.controller.turn import Answer


class ChatWire:
    """`POST /chat/completions`, which most other servers have."""

    path = "chat/completions"

    def body(self, request: ModelRequest, *, stream: bool) -> JsonObject:
        """Returns the body of a request."""
        fields: JsonObject = {
            **shared_fields(request),
            "messages": with_few_marks([*messages_of(request.instructions, request.items)]),
            "max_tokens": request.max_output_tokens,
        }
        if request.tools:
            fields["tools"] = [_tool(tool) for tool in request.tools]
            fields["tool_choice"] = _choice(request.tool_choice)
        if stream:
            fields["stream"] = True
            fields["stream_options"] = {"include_usage": True}
        return fields

    def answer(self, body: JsonObject) -> Answer:
        """Reads a whole answer; raises ModelError."""
        return read_completion(body)

    def accumulator(self) -> ChatAccumulator:
        """Returns what reads one streamed answer."""
        return ChatAccumulator()


def _tool(tool: ToolDefinition) -> JsonObject:
    function: JsonObject = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
    }
    return {"type": "function", "function": function}


def _choice(choice: ToolChoice) -> JsonValue:
    if isinstance(choice, NamedTool):
        return {"type": "function", "function": {"name": choice.name}}
    return choice
