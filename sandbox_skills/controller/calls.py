"""An answer's calls read with care: whatever a model or a provider made of them, the history stays one that is taken.

Pure. Arguments that cannot be read are `{}` in the history, since providers refuse a conversation that holds them.
"""

from __future__ import annotations

import json
import re
from hashlib import sha256
from typing import TYPE_CHECKING, cast

from sandbox_skills.catalog.text import one_line
from sandbox_skills.controller.json_values import is_too_deep, without_halves
from sandbox_skills.controller.turn import ModelCall, Turn
from sandbox_skills.toolsets.wire_formats.arguments import documents

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandbox_skills.catalog.manifest_json import JsonObject
    from sandbox_skills.controller.turn import Answer

MAX_CALL_ID = 64
"""Characters that every provider takes; some make longer ones than others accept."""

MAX_NAME = 64
"""Characters of a tool's name, as OpenRouter documents it."""

MAX_CALLS = 128
"""Calls of one answer that are run, as many as OpenAI's API takes at most: each may start a sandbox, and limits of a
run are looked at between answers."""

MAX_NAME_KEPT = 2 * MAX_NAME
"""Characters kept of a name that no tool has."""

MAX_SHOWN = 500
"""Characters of arguments that are shown again to the model that made them: enough to see the fault."""

NAME = re.compile(rf"[a-zA-Z0-9_-]{{1,{MAX_NAME}}}")
"""A tool's name, as OpenRouter documents it."""

_FOREIGN = re.compile(r"[^a-zA-Z0-9_-]")

CUT = "the call was cut off before it was whole; nothing was run"
TOO_MANY = f"an answer may have {MAX_CALLS} calls; this one was not run. Call it again in the next answer."


class _ArgumentsError(ValueError):
    """Arguments that are no JSON object; the text is for the model."""


def read_turn(answer: Answer, history: Sequence[JsonObject]) -> Turn:
    """Returns an answer with ids that are unique in the conversation, and with its calls."""
    call_ids = {str(item.get("call_id")) for item in history if item.get("type") == "function_call"}
    item_ids = {str(item["id"]) for item in history if item.get("id")}
    items: list[JsonObject] = []
    calls: list[ModelCall] = []
    for item in map(_as_output, answer.items):
        if item is None:
            continue
        mine = _with_own_id(item, item_ids)
        if mine.get("type") == "function_call":
            fault = CUT if answer.incomplete else TOO_MANY if len(calls) >= MAX_CALLS else ""
            call, mine = _read_call(mine, call_ids, fault)
            calls.append(call)
        items.append(mine)
    return Turn(answer, tuple(items), tuple(calls))


def _as_output(item: JsonObject) -> JsonObject | None:
    """Returns an item as a model's own, None for what no model can say: an output of a call, an unreadable kind.

    A history with those would be refused by every other server, and be no saved conversation.
    """
    kind = item.get("type", "message")
    if not isinstance(kind, str) or kind == "function_call_output":
        return None
    if kind == "message" and (item.get("role") != "assistant" or "type" not in item):
        return {**item, "type": "message", "role": "assistant"}
    return item


def _with_own_id(item: JsonObject, taken: set[str]) -> JsonObject:
    """Returns the item without an id that another one has: providers refuse the second, and need none at all."""
    own = item.get("id")
    if own is None:
        return item
    if str(own) in taken:
        return {key: value for key, value in item.items() if key != "id"}
    taken.add(str(own))
    return item


def _read_call(item: JsonObject, taken: set[str], fault: str) -> tuple[ModelCall, JsonObject]:
    call_id = own_call_id(item.get("call_id"), taken)
    taken.add(call_id)
    raw, name = item.get("arguments"), item.get("name")
    named = name if isinstance(name, str) else ""
    arguments: JsonObject = {}
    if not fault and item.get("status") not in ("completed", None):  # a list: it may be of any type
        fault = CUT
    if not fault:
        try:
            arguments = read_arguments(raw)
        except _ArgumentsError as error:
            fault = str(error)
    kept = raw if isinstance(raw, str) and not fault and _is_one_object(raw) else _dumped(arguments)
    safe = named if NAME.fullmatch(named) else _FOREIGN.sub("_", named)[:MAX_NAME] or "unnamed"
    sent = {**item, "call_id": call_id, "name": safe, "arguments": kept}
    if "status" in item:
        sent["status"] = "completed"  # a call that has its output is over, whatever it was
    return ModelCall(call_id, named[:MAX_NAME_KEPT], arguments, fault), sent


def own_call_id(given: object, taken: set[str]) -> str:
    """Returns the id of a call: the given one if it can be, else one made of it, the same each time."""
    text = given if isinstance(given, str) else ""
    if 0 < len(text) <= MAX_CALL_ID and text not in taken:
        return text
    number = 0
    while (made := f"call_{sha256(f'{number}:{text}'.encode('utf-8', 'replace')).hexdigest()[:40]}") in taken:
        number += 1
    return made


def read_arguments(raw: object) -> JsonObject:
    """Returns the arguments of a call. None and an empty text are no arguments; raises ValueError with the fault."""
    if raw is None or (isinstance(raw, str) and not raw.strip()):
        return {}
    if isinstance(raw, dict):
        return cast("JsonObject", raw)
    if not isinstance(raw, str):
        raise _ArgumentsError("the arguments are no JSON object")
    values = _objects(raw)
    told = [value for value in values if value]
    if not all(value == told[0] for value in told):
        raise _ArgumentsError(_shown("the arguments are several JSON objects", raw))
    return told[0] if told else {}


def _objects(raw: str) -> list[JsonObject]:
    """Returns the objects that a text is made of: some streams send one twice, or an empty one before it."""
    try:
        values = documents(raw)
    except (ValueError, RecursionError) as error:
        fault = error.msg if isinstance(error, json.JSONDecodeError) else "not what JSON can be"
        raise _ArgumentsError(_shown(f"the arguments are not JSON: {fault}", raw)) from error
    if is_too_deep(values):
        raise _ArgumentsError(_shown("the arguments are nested too deeply", raw))
    if not all(isinstance(value, dict) for value in values):
        raise _ArgumentsError(_shown("the arguments are no JSON object", raw))
    return cast("list[JsonObject]", without_halves(values))


def _is_one_object(raw: str) -> bool:
    try:
        return len(documents(raw)) == 1
    except (ValueError, RecursionError):
        return False


def _dumped(arguments: JsonObject) -> str:
    return json.dumps(arguments, ensure_ascii=False)


def _shown(fault: str, raw: str) -> str:
    return f"{fault}. What came: {one_line(raw, MAX_SHOWN)}"
