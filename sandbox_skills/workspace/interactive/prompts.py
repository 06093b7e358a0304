"""Whether a program seems to wait for an answer. Pure; a guess from its last lines, and never more than that."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

WINDOW = 20
"""Lines that are looked at: what a terminal shows of a menu with its question."""

MENU_ENTRIES = 2
"""Numbered lines that make a menu; one alone is a heading or an address."""

HINT_CHARACTERS = 200
"""What a hint shows of a line: a question, and not a page."""

LAST_CHARACTERS = 1000
"""Of a long line its end is looked at: a question stands there, and a search stays short."""

MENU_ENTRY = re.compile(r"\s*[(\[]?\d{1,3}[.)\]]\s+\S")

_IMPERATIVE = r"(?:^|[.,;:!?(\[-]\s{0,3}|\b(?:please|to|and|or|then|now|must|should|can|may)\s{1,3})"
"""What stands before a verb that asks: a log says "input file" and "unsupported type" too."""

ASKS_FOR_NUMBER = re.compile(
    rf"{_IMPERATIVE}(?:enter|choose|select|pick|type|input)\b.{{0,60}}"
    r"\b(?:number|option|choice|item|index|\d+\s*(?:-|\.\.|to)\s*\d+)\b"
    r"|\b(?:your|make a) (?:choice|selection)\b"
    r"|#\?$",  # what the `select` of a shell asks with
    re.IGNORECASE,
)

ASKS_FOR_ANSWER = re.compile(
    r"[:?]$"
    rf"|{_IMPERATIVE}(?:press|hit)\b.{{0,20}}\b(?:enter|return|key)\b"
    rf"|{_IMPERATIVE}type\b"
    r"|[(\[]\s*y(?:es)?\s*/\s*no?\s*[)\]]",
    re.IGNORECASE,
)

_LEAVING = r"to (?:quit|exit|leave|abort|cancel|stop|interrupt)"

TELLS_OF_COMMANDS = re.compile(
    r"\b(?:type|enter)\b.{1,80}\b(?:for\b.{0,40}\b(?:information|help|hints|details|usage|commands|list)"
    rf"|{_LEAVING}|to (?:search|clear|see|list|view|show|get|toggle))\b"
    rf"|\b{_LEAVING}\b.{{1,40}}\btype\b"
    r"|\bfor (?:help|details|more)\b.{0,40}\btype\b",
    re.IGNORECASE,
)
"""What interpreters greet with, before they show the prompt: `Type "help" for more information.`"""

READY = re.compile(r"^\.{3}$|^\([\w+-]{1,20}\)$|(?:(?<![=*-]{2})>|(?<!#)[$#]|(?<!\d)%)$")
"""What interpreters and shells end their prompts with; they leave that line open. Bars of progress end so too."""


@dataclass(frozen=True, slots=True)
class Interaction:
    """What a program seems to want: one of several entries, or any answer. `hint` is the line that says so."""

    kind: Literal["prompt", "selection"]
    hint: str

    def as_dict(self) -> dict[str, object]:
        """Returns the one spelling of it, for JSON."""
        return {"needs_input": True, "kind": self.kind, "hint": self.hint}


def detect(lines: Sequence[str], partial: str) -> Interaction | None:
    """Returns what the last lines of a running program ask for; they must be plain text.

    `partial` is the line that has not ended: a shell's prompt counts only there.
    """
    recent = [line.rstrip() for line in (*lines, partial)[-WINDOW:]]
    last = next((line for line in reversed(recent) if line), "")[-LAST_CHARACTERS:]
    kind = _kind(recent, last, unended=bool(partial.strip()))
    return Interaction(kind, last.strip()[:HINT_CHARACTERS]) if kind else None


def _kind(recent: Sequence[str], last: str, *, unended: bool) -> Literal["prompt", "selection"] | None:
    if ASKS_FOR_NUMBER.search(last):
        return "selection"
    if unended and READY.search(last):
        # Before the menu: what stands above a shell's prompt was printed by a program.
        return "prompt"
    if sum(bool(MENU_ENTRY.match(line)) for line in recent) >= MENU_ENTRIES:
        return "selection"
    if TELLS_OF_COMMANDS.search(last) and not last.endswith((":", "?")):
        return None
    return "prompt" if ASKS_FOR_ANSWER.search(last) else None
