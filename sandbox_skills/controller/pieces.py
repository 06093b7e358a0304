"""Texts that come in pieces, and how much of an answer may be held until it is whole. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from sandbox_skills.errors import ModelAnswerError

GATHERED = 1024
"""Pieces that are held by themselves: each costs more than the few characters it has."""

MAX_PARTS = 4096
"""Items, texts and calls of one answer: each is held until the end, and costs ten times the event that begins it."""


@dataclass(slots=True)
class Pieces:
    """A text put together from its pieces."""

    _wholes: list[str] = field(default_factory=list[str])
    _pieces: list[str] = field(default_factory=list[str])

    def add(self, piece: str) -> None:
        """Adds a piece at the end."""
        self._pieces.append(piece)
        if len(self._pieces) >= GATHERED:
            self._wholes.append("".join(self._pieces))
            self._pieces.clear()

    def __bool__(self) -> bool:
        return bool(self._wholes or self._pieces)

    def __str__(self) -> str:
        return "".join((*self._wholes, *self._pieces))


def check_parts(parts: int) -> None:
    """Raises ModelAnswerError for an answer of more parts than any model makes."""
    if parts > MAX_PARTS:
        raise ModelAnswerError(f"the server sends an answer of more than {MAX_PARTS} parts")
