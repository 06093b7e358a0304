"""A streamed response put together. Pure.

Recordings differ from the documents: ids of items change between the stream and the end, done events come in any
order, the last response may lack its output. So items are told apart by `output_index` alone, and what is final beats
what was gathered.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sandbox_skills.controller.events import ReasoningDelta, TextDelta
from sandbox_skills.controller.failures import failure_of
from sandbox_skills.controller.json_values import count_at, object_of, objects_of, text_at
from sandbox_skills.controller.pieces import Pieces, check_parts
from sandbox_skills.controller.responses_answer import read_response
from sandbox_skills.errors import StreamTruncatedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sandbox_skills.catalog.manifest_json import JsonObject
    from sandbox_skills.controller.events import ModelDelta
    from sandbox_skills.controller.turn import Answer

TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed", "response.done"})
FAILED = frozenset({"error", "response.error"})
TEXT = frozenset({"response.output_text.delta", "response.refusal.delta", "response.content_part.delta"})
REASONING = frozenset(
    {"response.reasoning_text.delta", "response.reasoning_summary_text.delta", "response.reasoning.delta"}
)
"""The last of each is a spelling that only the documents have."""


@dataclass(slots=True)
class _Item:
    """An item of the output as far as it has come."""

    added: JsonObject | None = None
    texts: dict[int, Pieces] = field(default_factory=dict[int, Pieces])
    arguments: Pieces = field(default_factory=Pieces)
    arguments_done: str | None = None
    done: JsonObject | None = None

    @property
    def whole(self) -> JsonObject:
        """The item, from whatever is most final; the deltas only where nothing else is."""
        item = self.done or self.added or {"type": "message", "role": "assistant"}
        if item.get("type") == "function_call":
            arguments = self.arguments_done or item.get("arguments") or str(self.arguments)
            return {**item, "arguments": arguments}
        if self.texts and not item.get("content"):
            return {**item, "content": [_text_part(str(text)) for _, text in sorted(self.texts.items())]}
        return item


def _text_part(text: str) -> JsonObject:
    return {"type": "output_text", "text": text, "annotations": []}


class ResponsesAccumulator:
    """One streamed response, as `wire.Accumulator`."""

    def __init__(self) -> None:
        self.answer: Answer | None = None
        self.closing = False
        self._items: dict[int, _Item] = {}
        self._parts = 0
        self._takers: Mapping[str, Callable[[JsonObject], None]] = {
            "response.output_item.added": self._added,
            "response.output_item.done": self._done,
            "response.function_call_arguments.delta": self._arguments_delta,
            "response.function_call_arguments.done": self._arguments_done,
        }

    @property
    def started(self) -> bool:
        """Whether an item of the output has come."""
        return bool(self._items)

    def feed(self, event: JsonObject) -> ModelDelta | None:
        """Takes one event; raises ModelError for one that tells of a failure."""
        kind = event.get("type")
        if not isinstance(kind, str):
            if event.get("error"):
                raise failure_of(None, {}, event)
            return None
        if kind in TEXT:
            delta = text_at(event, "delta")
            self._text(event).add(delta)
            return TextDelta(delta) if delta else None
        if kind in REASONING:
            delta = text_at(event, "delta")
            self._item(event)
            return ReasoningDelta(delta) if delta else None
        if (take := self._takers.get(kind)) is not None:
            take(event)
        elif kind in FAILED:
            raise failure_of(None, {}, event)
        elif kind in TERMINAL:
            self._terminal(object_of(event.get("response")), kind)
        return None

    def end(self) -> Answer:
        """Returns what came, where every item is whole and no call is among them: those need a real end."""
        if self.answer is not None:
            return self.answer
        items = self._whole()
        done = all(item.done is not None for item in self._items.values())
        if not items or not done or any(item.get("type") == "function_call" for item in items):
            raise StreamTruncatedError("the answer broke off before its end", retryable=True)
        return read_response({}, items)

    def _terminal(self, response: JsonObject, kind: str) -> None:
        if kind == "response.failed" or response.get("error"):
            raise failure_of(None, {}, response)
        if kind == "response.incomplete":
            response = {**response, "status": "incomplete"}
        elif response.get("status") == "in_progress":  # what some servers leave in the last event
            response = {**response, "status": "completed"}
        output = [self._with_arguments(n, item) for n, item in enumerate(objects_of(response.get("output")))]
        self.answer = read_response({**response, "output": [*output]}, self._whole())

    def _with_arguments(self, index: int, item: JsonObject) -> JsonObject:
        """Returns an item of the last response; a call that lacks its arguments there has those of the stream."""
        streamed = self._items.get(index)
        if item.get("type") != "function_call" or item.get("arguments") or streamed is None:
            return item
        whole = streamed.whole
        same = whole.get("type") == "function_call" and whole.get("call_id") == item.get("call_id")
        return {**item, "arguments": whole["arguments"]} if same else item

    def _whole(self) -> list[JsonObject]:
        return [item.whole for _, item in sorted(self._items.items())]

    def _item(self, event: JsonObject) -> _Item:
        index = event.get("output_index")
        number = index if isinstance(index, int) else 0
        if number not in self._items:
            self._count_part()
            self._items[number] = _Item()
        return self._items[number]

    def _text(self, event: JsonObject) -> Pieces:
        texts, number = self._item(event).texts, count_at(event, "content_index")
        if number not in texts:
            self._count_part()
            texts[number] = Pieces()
        return texts[number]

    def _count_part(self) -> None:
        self._parts += 1
        check_parts(self._parts)

    def _added(self, event: JsonObject) -> None:
        self._item(event).added = object_of(event.get("item"))

    def _done(self, event: JsonObject) -> None:
        self._item(event).done = object_of(event.get("item"))

    def _arguments_delta(self, event: JsonObject) -> None:
        self._item(event).arguments.add(text_at(event, "delta"))

    def _arguments_done(self, event: JsonObject) -> None:
        arguments = event.get("arguments")
        if isinstance(arguments, str):
            self._item(event).arguments_done = arguments
