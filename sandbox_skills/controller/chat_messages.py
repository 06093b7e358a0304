"""Items of a history → messages of Chat Completions. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.controller.history import is_from_model
from sandbox_skills.controller.json_values import object_of, objects_of, text_at
from sandbox_skills.controller.turn import text_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sandbox_skills.catalog.manifest_json import JsonObject, JsonValue


def messages_of(instructions: str, items: Iterable[JsonObject]) -> list[JsonObject]:
    """Returns the messages; what the model made in one answer is one message, its calls and reasoning with it."""
    messages: list[JsonObject] = []
    if instructions:
        messages.append({"role": "system", "content": instructions})
    answer: list[JsonObject] = []
    for item in items:
        if is_from_model(item):
            answer.append(item)
            continue
        messages += _assistant(answer)
        answer = []
        messages.append(_message(item))
    return messages + _assistant(answer)


def _assistant(items: list[JsonObject]) -> list[JsonObject]:
    calls: list[JsonValue] = [_call(item) for item in items if item.get("type") == "function_call"]
    details = [one for item in items for one in objects_of(item.get("reasoning_details"))]
    text = text_of(items)
    if not calls and not text:
        return []
    message: JsonObject = {"role": "assistant", "content": text or None}
    if text:
        message["content"] = text
    if calls:
        message["tool_calls"] = calls
    if details:
        message["reasoning_details"] = [*details]
    return [message]


def _call(item: JsonObject) -> JsonObject:
    function: JsonObject = {"name": text_at(item, "name"), "arguments": text_at(item, "arguments")}
    return {"id": text_at(item, "call_id"), "type": "function", "function": function}


def _message(item: JsonObject) -> JsonObject:
    if item.get("type") == "function_call_output":
        output = item.get("output")
        text = output if isinstance(output, str) else _joined(output)
        return {"role": "tool", "tool_call_id": text_at(item, "call_id"), "content": text}
    content = item.get("content")
    parts: JsonValue = content if isinstance(content, str) else [_part(one) for one in objects_of(content)]
    return {"role": text_at(item, "role") or "user", "content": parts}


def _joined(output: JsonValue) -> str:
    return "".join(text_at(part, "text") for part in objects_of(output))


def _part(part: JsonObject) -> JsonObject:
    match part.get("type"):
        case "input_text" | "output_text":
            plain: JsonObject = {"type": "text", "text": text_at(part, "text")}
            mark = object_of(part.get("cache_control"))
            return {**plain, "cache_control": mark} if mark else plain
        case "input_image":
            image: JsonObject = {"url": text_at(part, "image_url")}
            return {"type": "image_url", "image_url": image}
        case _:
            return part
