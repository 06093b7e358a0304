"""Where what is loaded goes in the input of a model request, in both shapes that providers have. Pure.

Chat messages: a call is in `tool_calls` of an assistant's message, its result a message of the role `tool`.
Responses items: `function_call` and `function_call_output`. What is no item of these two is left as it is.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

from sandbox_skills.toolsets.workspace_tools.names import SKILL_LOAD, SKILL_SELECT_DOCS
from sandbox_skills.toolsets.workspace_tools.results import STUB

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sandbox_skills.catalog.manifest_json import JsonObject, JsonValue

SYSTEM_ROLES = frozenset({"system", "developer"})


def in_system(items: Sequence[JsonObject], text: str) -> list[JsonObject]:
    """Returns the items with a text at the end of the first system message, or in one of its own before all."""
    if not text:
        return list(items)
    for place, item in enumerate(items):
        if _is_system(item):
            return [*items[:place], _longer(item, text), *items[place + 1 :]]
    return [_message(text), *items]


def in_results(
    items: Sequence[JsonObject], texts: Mapping[str, str], *, fallback: bool = True
) -> list[JsonObject]:
    """Returns the items with each skill's text in place of the last result of a call that loaded it.

    What no result is there for goes into one system message of its own, unless `fallback` is False.
    """
    places = _places(items)
    out = list(items)
    for name, text in texts.items():
        if name in places:
            out[places[name]] = _answered(items[places[name]], text)
    left = [text for name, text in texts.items() if name not in places]
    if not left or not fallback:
        return out
    first = next((place for place, item in enumerate(out) if not _is_system(item)), len(out))
    return [*out[:first], _message("\n\n".join(left)), *out[first:]]


def _is_system(item: JsonObject) -> bool:
    return _text(item.get("role")) in SYSTEM_ROLES


def _places(items: Sequence[JsonObject]) -> dict[str, int]:
    """Returns for each skill the place of the last result that tells of its loading; refusals do not."""
    tools: dict[str, str] = {}
    places: dict[str, int] = {}
    for place, item in enumerate(items):
        tools |= _calls(item)
        if name := _loaded_by(tools.get(_answer_to(item), ""), _result(item)):
            places[name] = place
    return places


def _calls(item: JsonObject) -> dict[str, str]:
    """Returns the calls that an item makes: the name of each one's tool, by its id."""
    if item.get("type") == "function_call":
        return {_text(item.get("call_id")): _text(item.get("name"))}
    found: dict[str, str] = {}
    rows = item.get("tool_calls")
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict) and isinstance(function := row.get("function"), dict):
            found[_text(row.get("id"))] = _text(function.get("name"))
    return found


def _loaded_by(tool: str, result: str) -> str:
    """Returns the skill that a result is about, by its own name: the model may have called it by another."""
    if tool == SKILL_LOAD and result.startswith(STUB):
        return result.removeprefix(STUB)
    if tool != SKILL_SELECT_DOCS:
        return ""
    try:
        told: object = json.loads(result)
    except (ValueError, RecursionError):
        return ""
    return _text(cast("JsonObject", told).get("skill")) if isinstance(told, dict) else ""


def _answer_to(item: JsonObject) -> str:
    if item.get("type") == "function_call_output":
        return _text(item.get("call_id"))
    return _text(item.get("tool_call_id")) if item.get("role") == "tool" else ""


def _result(item: JsonObject) -> str:
    content = item.get(_field(item))
    if isinstance(content, list):
        return "".join(_text(part.get("text")) for part in content if isinstance(part, dict))
    return _text(content)


def _answered(item: JsonObject, text: str) -> JsonObject:
    return {**item, _field(item): text}


def _field(item: JsonObject) -> str:
    return "output" if item.get("type") == "function_call_output" else "content"


def _longer(item: JsonObject, text: str) -> JsonObject:
    content = item.get("content")
    if isinstance(content, list):
        kinds = [part.get("type") for part in content if isinstance(part, dict)]
        return {**item, "content": [*content, {"type": kinds[-1] if kinds else "text", "text": text}]}
    return {**item, "content": f"{_text(content)}\n\n{text}".strip()}


def _message(text: str) -> JsonObject:
    return {"role": "system", "content": text}


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""
