"""The Responses API as a wire. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.controller.request import NamedTool, shared_fields, with_few_marks
from sandbox_skills.controller.responses_answer import read_response
from sandbox_skills.controller.responses_stream import ResponsesAccumulator

if TYPE_CHECKING:
    from sandbox_skills.catalog.manifest_json import JsonObject, JsonValue
    from sandbox_skills.controller.request import ModelRequest, ToolChoice, ToolDefinition
    from sandbox_skills.controller.turn import Answer

ENCRYPTED_REASONING = "reasoning.encrypted_content"
"""What is asked for beside the answer: without it reasoning cannot be sent again, and the model thinks anew."""


class ResponsesWire:
    """`POST /responses`, stateless: the whole history goes with each request, and every tool with it."""

    path = "responses"

    def body(self, request: ModelRequest, *, stream: bool) -> JsonObject:
        """Returns the body of a request."""
        fields: JsonObject = {
            **shared_fields(request),
            "input": with_few_marks([item for item in request.items if "reasoning_details" not in item]),
            "include": [ENCRYPTED_REASONING],
            "max_output_tokens": request.max_output_tokens,
        }
        if request.instructions:
            fields["instructions"] = request.instructions
        if request.tools:
            fields["tools"] = [_tool(tool) for tool in request.tools]
            fields["tool_choice"] = _choice(request.tool_choice)
        if stream:
            fields["stream"] = True
        return fields

    def answer(self, body: JsonObject) -> Answer:
        """Reads a whole answer; raises ModelError."""
        return read_response(body)

    def accumulator(self) -> ResponsesAccumulator:
        """Returns what reads one streamed answer."""
        return ResponsesAccumulator()


def _tool(tool: ToolDefinition) -> JsonObject:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": False,
    }


def _choice(choice: ToolChoice) -> JsonValue:
    return {"type": "function", "name": choice.name} if isinstance(choice, NamedTool) else choice
