"""Spans of the loop, with the names of OpenTelemetry's semantic conventions for generative AI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.trace import SpanKind

from sandbox_skills.telemetry import convention_span

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from opentelemetry.trace import Span

    from sandbox_skills.controller.request import ModelRequest
    from sandbox_skills.controller.turn import Answer

PROVIDER = "openrouter"


def agent_span(conversation_id: str, model: str) -> AbstractContextManager[Span]:
    """Opens the span of a whole run."""
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": PROVIDER,
        "gen_ai.conversation.id": conversation_id,
        "gen_ai.request.model": model,
    }
    return convention_span("invoke_agent", attributes)


def model_span(request: ModelRequest) -> AbstractContextManager[Span]:
    """Opens the span of one request to the model, retries included."""
    attributes: dict[str, str | int | float | bool] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": PROVIDER,
        "gen_ai.request.model": request.model,
        "gen_ai.request.max_tokens": request.max_output_tokens,
    }
    return convention_span(f"chat {request.model}", attributes, kind=SpanKind.CLIENT)


def tell_answer(current: Span, answer: Answer) -> None:
    """Adds what the model answered with, never its words."""
    current.set_attribute("gen_ai.response.model", answer.model)
    current.set_attribute("gen_ai.response.id", answer.id)
    current.set_attribute("gen_ai.response.finish_reasons", (answer.incomplete or "stop",))
    current.set_attribute("gen_ai.usage.input_tokens", answer.usage.input_tokens)
    current.set_attribute("gen_ai.usage.output_tokens", answer.usage.output_tokens)


def tool_span(name: str, call_id: str) -> AbstractContextManager[Span]:
    """Opens the span of one call."""
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.id": call_id,
        "gen_ai.tool.type": "function",
    }
    return convention_span(f"execute_tool {name}", attributes)
