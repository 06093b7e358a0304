"""A conversation between two runs: what a caller keeps, stores as JSON, and gives back, in another process too.

The JSON has a version. What is read back is checked: a history in which calls lack outputs would be refused by every
provider, and a call that a stranger added would be run.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Literal, cast

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from sandbox_skills.controller.loop import LoopState, PendingCall
from sandbox_skills.controller.turn import ModelCall, Usage
from sandbox_skills.errors import ConversationError
from sandbox_skills.toolsets.base import Conversation

VERSION = 1
"""Of the JSON. A change that an older program would read wrongly makes it another."""


@dataclass(slots=True)
class RunState:
    """Where a conversation stands: what its tools share, its history, and calls that wait."""

    conversation: Conversation
    loop: LoopState = field(default_factory=LoopState)
    model: str = ""

    def dumps(self) -> str:
        """Returns the state as JSON text."""
        loop = {**asdict(self.loop), "usage": self.loop.usage, "earlier": self.loop.earlier}
        return _Saved.model_validate(
            {
                "version": VERSION,
                "conversation": asdict(self.conversation),
                "loop": {**loop, "usage": asdict(self.loop.usage), "earlier": asdict(self.loop.earlier)},
                "model": self.model,
            }
        ).model_dump_json()

    @classmethod
    def loads(cls, text: str | bytes) -> RunState:
        """Reads what `dumps` returned; raises ConversationError for anything else."""
        try:
            saved = _Saved.model_validate_json(text)
        except ValidationError as error:
            raise ConversationError(_fault(error), hint="Begin a new conversation.") from error
        state = cls(Conversation(**saved.conversation.model_dump()), saved.loop.state(), saved.model)
        _check(state.loop)
        return state


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _SavedConversation(_Part):
    id: str
    tenant: str
    agent: str = ""
    state: dict[str, str] = {}


class _SavedUsage(_Part):
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float = 0.0
    answers: int = 0


class _SavedModelCall(_Part):
    id: str
    name: str
    arguments: dict[str, JsonValue] = {}
    fault: str = ""


class _SavedCall(_Part):
    call: _SavedModelCall
    status: Literal["open", "running", "approval", "manual", "approved", "done"]
    output: str = ""


class _SavedLoop(_Part):
    phase: Literal["idle", "asking", "calling", "done"]
    items: tuple[dict[str, JsonValue], ...] = ()
    pending: tuple[_SavedCall, ...] = ()
    steps: int = 0
    seconds: float = 0.0
    usage: _SavedUsage = _SavedUsage()
    earlier: _SavedUsage = _SavedUsage()
    limit: str = ""
    stop: str = ""
    text: str = ""
    called: tuple[str, ...] = ()
    corrections: int = 0
    asked_again: bool = False
    streaks: tuple[tuple[str, int], ...] = ()
    forget: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()
    instructions: tuple[str, ...] = ()

    def state(self) -> LoopState:
        values = {name: getattr(self, name) for name in type(self).model_fields}
        values["usage"] = Usage(**self.usage.model_dump())
        values["earlier"] = Usage(**self.earlier.model_dump())
        values["pending"] = tuple(
            PendingCall(ModelCall(**one.call.model_dump()), one.status, one.output) for one in self.pending
        )
        return LoopState(**values)


class _Saved(_Part):
    version: Literal[1]
    conversation: _SavedConversation
    loop: _SavedLoop
    model: str = ""


def _fault(error: ValidationError) -> str:
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"]))
    if place == "version" and first["type"] == "literal_error":
        return f"the saved conversation is not of version {VERSION}"
    return (
        f"this is no saved conversation: {place}: {first['msg']}"
        if place
        else "this is no saved conversation"
    )


def _check(loop: LoopState) -> None:
    calls = [_id(item) for item in loop.items if item.get("type") == "function_call"]
    outputs = [_id(item) for item in loop.items if item.get("type") == "function_call_output"]
    pending = [one.call.id for one in loop.pending]
    whole = calls == outputs + pending and len(set(calls)) == len(calls)
    if not whole or (loop.phase == "calling") != bool(pending):
        raise ConversationError(
            "the saved conversation has calls without an output", hint="Begin a new conversation."
        )


def _id(item: dict[str, JsonValue]) -> str:
    return cast("str", item.get("call_id"))
