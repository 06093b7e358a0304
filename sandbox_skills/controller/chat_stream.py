"""A streamed chat completion put together. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sandbox_skills.controller.chat_answer import answer_of
from sandbox_skills.controller.events import ReasoningDelta, TextDelta
from sandbox_skills.controller.failures import failure_of
from sandbox_skills.controller.json_values import object_of, objects_of, text_at
from sandbox_skills.controller.pieces import Pieces, check_parts
from sandbox_skills.errors import StreamTruncatedError

if TYPE_CHECKING:
    from sandbox_skills.catalog.manifest_json import JsonObject, JsonValue
    from sandbox_skills.controller.events import ModelDelta
    from sandbox_skills.controller.turn import Answer


@dataclass(slots=True)
class _Call:
    id: str = ""
    name: str = ""
    arguments: Pieces = field(default_factory=Pieces)

    def as_message(self) -> JsonObject:
        function: JsonObject = {"name": self.name, "arguments": str(self.arguments)}
        return {"id": self.id, "type": "function", "function": function}


class ChatAccumulator:
    """One streamed completion, as `wire.Accumulator`. It is whole when its reason to finish and its usage are there."""

    def __init__(self) -> None:
        self.answer: Answer | None = None
        self._head: JsonObject = {}
        self._reason = ""
        self._text = Pieces()
        self._refusal = Pieces()
        self._details: list[JsonObject] = []
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}

    @property
    def started(self) -> bool:
        """Whether text, reasoning or a call has come."""
        return bool(self._text or self._calls or self._details or self._refusal)

    @property
    def closing(self) -> bool:
        """Whether the reason to finish has come, and only the usage has not."""
        return bool(self._reason)

    def feed(self, event: JsonObject) -> ModelDelta | None:
        """Takes one chunk; raises ModelError for one with an error, whatever its reason to finish is."""
        if event.get("error"):
            raise failure_of(None, {}, event)
        for key in ("id", "model", "usage"):
            if event.get(key):
                self._head[key] = event[key]
        choices = objects_of(event.get("choices"))
        shown = self._choice(choices[0]) if choices else None
        if self._reason and self._head.get("usage"):
            self.answer = self._built()
        return shown

    def end(self) -> Answer:
        """Returns what came; without a reason to finish it is not whole."""
        if self.answer is None and not self._reason:
            raise StreamTruncatedError("the answer broke off before its end", retryable=True)
        return self.answer or self._built()

    def _choice(self, choice: JsonObject) -> ModelDelta | None:
        reason = text_at(choice, "finish_reason")
        if reason == "error" or choice.get("error"):
            raise failure_of(None, {}, choice if choice.get("error") else {"message": "the provider failed"})
        delta = object_of(choice.get("delta")) or object_of(choice.get("message"))
        if self._reason:
            return None  # some servers say everything again with a second end
        self._reason = reason
        self._details += objects_of(delta.get("reasoning_details"))
        for call in objects_of(delta.get("tool_calls")):
            self._call(call)
        if refusal := text_at(delta, "refusal"):
            self._refusal.add(refusal)
        if text := text_at(delta, "content"):
            self._text.add(text)
            return TextDelta(text)
        reasoning = text_at(delta, "reasoning") or text_at(delta, "reasoning_content")
        return ReasoningDelta(reasoning) if reasoning else None

    def _call(self, piece: JsonObject) -> None:
        given = piece.get("index")
        index = given if isinstance(given, int) else len(self._calls) - (not piece.get("id"))
        call = self._by_index.get(index)
        call_id = text_at(piece, "id")
        # Some servers number every call 0: another id is another call.
        if call is None or (call_id and call.id and call_id != call.id):
            call = self._by_index[index] = _Call()
            self._calls.append(call)
            check_parts(len(self._calls))
        function = object_of(piece.get("function"))
        call.id = call.id or call_id
        call.name = call.name or text_at(function, "name")
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            call.arguments.add(arguments)

    def _built(self) -> Answer:
        calls: list[JsonValue] = [call.as_message() for call in self._calls]
        message: JsonObject = {
            "content": str(self._text),
            "refusal": str(self._refusal),
            "reasoning_details": [*_joined(self._details)],
            "tool_calls": calls,
        }
        return answer_of(self._head, message, self._reason)


def _joined(details: list[JsonObject]) -> list[JsonObject]:
    """Returns reasoning details with the pieces of one put together: same index and type, texts in order."""
    joined: dict[tuple[str, str], JsonObject] = {}
    for number, piece in enumerate(details):
        key = (str(piece.get("index", f"none {number}")), text_at(piece, "type"))
        before = joined.setdefault(key, {})
        for name, value in piece.items():
            old = before.get(name)
            adds = name in {"text", "summary", "data"} and isinstance(old, str) and isinstance(value, str)
            before[name] = f"{old}{value}" if adds else value if value is not None else old
    return list(joined.values())
