"""What a page that is open is told: text to add to it, or that it is to be asked for again. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

QUIET = b": quiet\n\n"
"""A comment of the event stream, which browsers pass over."""


@dataclass(frozen=True, slots=True)
class Append:
    """Text to be added to an element that the page has."""

    to: str
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Renew:
    """The page is to be asked for again: there is more on it than text that grew."""


@dataclass(frozen=True, slots=True)
class End:
    """The last thing that is told; the page is asked for once more."""


Update = Append | Renew | End


def message(seq: int, update: Update | None) -> bytes:
    """Returns an update as an event stream has it (HTML, server-sent events); JSON keeps every text on one line."""
    match update:
        case Append():
            return _spelled(seq, "append", asdict(update))
        case Renew():
            return _spelled(seq, "renew", {})
        case End():
            return _spelled(seq, "end", {})
        case None:
            return QUIET


def _spelled(seq: int, name: str, data: dict[str, str]) -> bytes:
    return f"id: {seq}\nevent: {name}\ndata: {json.dumps(data)}\n\n".encode()
