"""What a model answered, in one form for both wires."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sandbox_skills.catalog.manifest_json import JsonObject


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, and US dollars where the server tells the cost, of one answer or of several."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float = 0.0
    answers: int = 0

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def as_dict(self) -> dict[str, object]:
        """Returns the figures for JSON; `cost` is in US dollars."""
        return asdict(self)

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.cost + other.cost,
            self.answers + other.answers,
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer as it came: `items` are its output, each as the server sent it.

    `incomplete` is why it was cut, "" for one that is whole. `model` is the one that answered, whichever was asked.
    """

    items: tuple[JsonObject, ...] = field(hash=False)
    incomplete: str = ""
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    id: str = ""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call of a tool. `id` is its own in the whole conversation, and short enough for every provider.

    `fault` is why it cannot be run, told to the model; `arguments` are empty then.
    """

    id: str
    name: str
    arguments: JsonObject = field(hash=False)
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """An answer that was read: items that may be sent again, and the calls among them in their order."""

    answer: Answer
    items: tuple[JsonObject, ...] = field(hash=False)
    calls: tuple[ModelCall, ...] = ()

    @property
    def text(self) -> str:
        return text_of(self.items)

    @property
    def refused(self) -> bool:
        """Whether the model said no instead of an answer."""
        return any(part.get("type") == "refusal" for part in _parts(self.items))


def text_of(items: Iterable[JsonObject]) -> str:
    """Returns the text of the messages among output items; the server's own field for it is not reliable."""
    texts = (part.get("text", part.get("refusal")) for part in _parts(items))
    return "".join(text for text in texts if isinstance(text, str))


def _parts(items: Iterable[JsonObject]) -> Sequence[JsonObject]:
    contents = (item.get("content") for item in items if item.get("type", "message") == "message")
    found: list[JsonObject] = []
    for content in contents:
        if isinstance(content, str):
            found.append({"type": "output_text", "text": content})
        elif isinstance(content, list):
            found.extend(part for part in content if isinstance(part, dict))
    return found
