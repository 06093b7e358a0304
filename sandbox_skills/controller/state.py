"""A conversation between two runs: what a caller keeps, stores as JSON, and gives back, in another process too.

The JSON has a version. What is read back is checked: a history in which calls lack outputs would be refused by every
provider, and a person's word on a call counts for the run in which it was given, not for whoever writes the file.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from sandbox_skills.catalog.text import one_line
from sandbox_skills.controller.json_values import MAX_NAME, parsed, text_at
from sandbox_skills.controller.loop import LoopState
from sandbox_skills.errors import ConversationError
from sandbox_skills.toolsets.base import Conversation  # noqa: TC001  # pydantic reads annotations

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sandbox_skills.controller.turn import Usage

VERSION = 1
"""Of the JSON. A change that an older program would read wrongly makes it another."""

_ANEW = "Begin a new conversation."


@dataclass(slots=True)
class RunState:
    """Where a conversation stands: what its tools share, its history, and calls that wait."""

    conversation: Conversation
    loop: LoopState = field(default_factory=LoopState)
    model: str = ""

    def dumps(self) -> str:
        """Returns the state as JSON text."""
        return (
            _form()
            .model_construct(
                version=VERSION, conversation=self.conversation, loop=self.loop, model=self.model
            )
            .model_dump_json()
        )

    @classmethod
    def loads(cls, text: str | bytes) -> RunState:
        """Reads what `dumps` returned; raises ConversationError for anything else.

        Calls that were approved and had not been started wait for a person's word again.
        """
        try:
            saved = _form().model_validate(parsed(text))
        except ValidationError as error:
            raise ConversationError(_fault(error), hint=_ANEW) from error
        _check(saved.loop)
        return cls(saved.conversation, _without_words(saved.loop), saved.model)


class _Saved(BaseModel):
    """The JSON. What the conversation and the loop have are its fields, under their names and with their types."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    version: Literal[1]
    conversation: Conversation
    loop: LoopState
    model: str = ""


@cache
def _form() -> type[_Saved]:
    # The loop's own word for an object has a definition that pydantic does not follow.
    _Saved.model_rebuild(_types_namespace={"JsonObject": dict[str, JsonValue]})
    return _Saved


def _fault(error: ValidationError) -> str:
    first = error.errors()[0]
    place = one_line(".".join(map(str, first["loc"])), MAX_NAME)
    if place == "version" and first["type"] == "literal_error":
        return f"the saved conversation is not of version {VERSION}"
    return (
        f"this is no saved conversation: {place}: {first['msg']}"
        if place
        else "this is no saved conversation"
    )


def _without_words(loop: LoopState) -> LoopState:
    waiting = (replace(one, status="approval") if one.status == "approved" else one for one in loop.pending)
    return replace(loop, pending=tuple(waiting))


def _check(loop: LoopState) -> None:
    pending = [one.call.id for one in loop.pending]
    if not _is_paired(loop.items, pending) or (loop.phase == "calling") != bool(pending):
        raise ConversationError("the saved conversation has calls without an output", hint=_ANEW)
    if any(number < 0 for number in _figures(loop)):
        raise ConversationError("the saved conversation has figures below zero", hint=_ANEW)


def _is_paired(items: tuple[Mapping[str, JsonValue], ...], pending: list[str]) -> bool:
    """Tells whether every call has an id of its own, and one output behind it or a place among those that wait."""
    open_calls: dict[str, None] = {}
    seen: set[str] = set()
    for item in items:
        call_id = text_at(item, "call_id")
        if item.get("type") == "function_call":
            if not call_id or call_id in seen:
                return False
            seen.add(call_id)
            open_calls[call_id] = None
        elif item.get("type") == "function_call_output":
            if call_id not in open_calls:
                return False
            del open_calls[call_id]
    return list(open_calls) == pending


def _figures(loop: LoopState) -> Iterator[float]:
    yield from (loop.steps, loop.seconds, loop.corrections)
    yield from (count for _, count in loop.streaks)
    yield from _figures_of(loop.usage)
    yield from _figures_of(loop.earlier)


def _figures_of(usage: Usage) -> Iterator[float]:
    yield from (usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.reasoning_tokens)
    yield from (usage.cost, usage.answers)
