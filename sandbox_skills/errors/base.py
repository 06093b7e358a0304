"""What all errors have, and what several of them carry."""

from __future__ import annotations

from dataclasses import dataclass


class SandboxSkillsError(Exception):
    """Base of all errors; `code` is stable, `hint` names the next step or is empty."""

    code: str = "error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if hint:
            self.add_note(f"hint: {hint}")  # for a traceback, which is all that a library's user may see


@dataclass(frozen=True, slots=True)
class Violation:
    """One rule that a SKILL.md breaks; `line` and `column` count from 1, None where unknown."""

    field: str
    message: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message
