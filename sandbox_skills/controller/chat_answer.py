"""A whole chat completion → an answer, or the error that it holds. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.controller.failures import failure_of, has_error
from sandbox_skills.controller.json_values import cost_at, count_at, name_at, object_of, objects_of, text_at
from sandbox_skills.controller.turn import Answer, Usage
from sandbox_skills.errors import ModelAnswerError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox_skills.catalog.manifest_json import JsonObject

CUT: Mapping[str, str] = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Reasons to finish that leave an answer incomplete, in the words of the Responses API."""


def read_completion(body: JsonObject) -> Answer:
    """Returns the answer in a completion; raises ModelError."""
    choices = objects_of(body.get("choices"))
    failed = bool(choices) and (choices[0].get("error") or choices[0].get("finish_reason") == "error")
    if has_error(body) or failed:
        raise failure_of(None, {}, body if body.get("error") else choices[0])
    if not choices:
        raise ModelAnswerError(
            "the server's answer is no chat completion", hint="Is model.wire right for this server?"
        )
    return answer_of(body, object_of(choices[0].get("message")), text_at(choices[0], "finish_reason"))


def answer_of(body: JsonObject, message: JsonObject, reason: str) -> Answer:
    """Returns an answer made of one message. Reasoning comes first, as it does in a response."""
    return Answer(
        items=tuple(_items(message)),
        incomplete=CUT.get(reason, ""),
        usage=_usage(object_of(body.get("usage"))),
        model=name_at(body, "model"),
        id=name_at(body, "id"),
    )


def _items(message: JsonObject) -> list[JsonObject]:
    items: list[JsonObject] = []
    if details := objects_of(message.get("reasoning_details")):
        items.append({"type": "reasoning", "reasoning_details": [*details]})
    text = message.get("content")
    if isinstance(text, list):
        text = "".join(text_at(part, "text") for part in objects_of(text))
    for kind, value in (("output_text", text), ("refusal", message.get("refusal"))):
        if isinstance(value, str) and value:
            key = "text" if kind == "output_text" else "refusal"
            part: JsonObject = {"type": kind, key: value}
            items.append({"type": "message", "role": "assistant", "status": "completed", "content": [part]})
    items += [_call(one) for one in objects_of(message.get("tool_calls"))]
    return items


def _call(call: JsonObject) -> JsonObject:
    function = object_of(call.get("function"))
    return {
        "type": "function_call",
        "call_id": call.get("id"),
        "name": function.get("name"),
        "arguments": function.get("arguments"),
    }


def _usage(usage: JsonObject) -> Usage:
    return Usage(
        input_tokens=count_at(usage, "prompt_tokens"),
        output_tokens=count_at(usage, "completion_tokens"),
        cached_tokens=count_at(object_of(usage.get("prompt_tokens_details")), "cached_tokens"),
        reasoning_tokens=count_at(object_of(usage.get("completion_tokens_details")), "reasoning_tokens"),
        cost=cost_at(usage, "cost"),
        answers=1,
    )
