"""A conversation as Responses items, and what is made of it before it is sent. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.controller.json_values import text_at

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from sandbox_skills.catalog.manifest_json import JsonObject

    Trim = Callable[[Sequence[JsonObject]], Sequence[JsonObject]]

LOST = "The result of this call is not known."
"""The output of a call that has none, in a history that we did not keep ourselves."""

DROPPED = "[an old result was dropped to make room]"

KEPT_OUTPUTS = 2
"""Latest outputs that stay when the conversation is too long: what the model works with."""

FROM_MODEL = frozenset({"reasoning", "function_call"})


def user_message(text: str) -> JsonObject:
    """Returns what the user says as an item."""
    return {"type": "message", "role": "user", "content": text}


def call_output(call_id: str, text: str) -> JsonObject:
    """Returns the output of a call as an item."""
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def is_from_model(item: JsonObject) -> bool:
    """Tells whether the model made the item."""
    return text_at(item, "type") in FROM_MODEL or item.get("role") == "assistant"


def paired(items: Sequence[JsonObject]) -> list[JsonObject]:
    """Returns items in which every call has one output behind it: missing ones are added, others dropped."""
    calls = {str(item.get("call_id")) for item in items if item.get("type") == "function_call"}
    outputs = {str(item.get("call_id")) for item in items if item.get("type") == "function_call_output"}
    answered: set[str] = set()
    result: list[JsonObject] = []
    for item in items:
        call_id = str(item.get("call_id"))
        if item.get("type") == "function_call_output":
            if call_id not in calls or call_id in answered:
                continue
            answered.add(call_id)
        result.append(item)
        if item.get("type") == "function_call" and call_id not in outputs:
            result.append(call_output(call_id, LOST))
    return result


def without_reasoning(items: Iterable[JsonObject]) -> list[JsonObject]:
    """Returns items without reasoning, which only the endpoint that made it can read."""
    return [item for item in items if item.get("type") != "reasoning"]


def without_calls(items: Sequence[JsonObject], ids: Collection[str]) -> list[JsonObject]:
    """Returns items without these calls and their outputs, and without reasoning that nothing would follow."""
    if not ids:
        return list(items)
    kept: list[JsonObject] = []
    followed = False  # by something of the same answer that stays
    for item in reversed(items):
        dropped = item.get("call_id") in ids
        if not is_from_model(item):
            followed = False
        elif item.get("type") != "reasoning":
            followed = followed or not dropped
        elif not followed:
            continue  # providers refuse reasoning without what the model made of it
        if not dropped:
            kept.append(item)
    kept.reverse()
    return kept


def drop_old_outputs(items: Sequence[JsonObject]) -> list[JsonObject]:
    """Returns items with all but the latest outputs of calls replaced by a note: the usual way to make room."""
    outputs = [n for n, item in enumerate(items) if item.get("type") == "function_call_output"]
    old = set(outputs[:-KEPT_OUTPUTS])
    return [{**item, "output": DROPPED} if n in old else item for n, item in enumerate(items)]


def trimmed(items: Sequence[JsonObject], trim: Trim, pinned: Collection[str]) -> list[JsonObject]:
    """Returns what `trim` leaves of a conversation, with every call in `pinned` and its output as they were.

    Those are the loaded skills: a model without them would go on as if it still knew them. One that `trim` dropped
    stands before all that is left.
    """
    left = list(trim(items))
    kept = {_key(item) for item in left}
    whole = {_key(item): item for item in items if item.get("call_id") in pinned}
    missing = [item for key, item in whole.items() if key not in kept]
    return paired(missing + [whole.get(_key(item), item) for item in left])


def _key(item: JsonObject) -> tuple[str, str]:
    return text_at(item, "type"), text_at(item, "call_id")
