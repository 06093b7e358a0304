"""What is to be shown of a skill, one thing at a time: a case, or one of the checks that every skill gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sandbox_skills.ci.observed import Failure
    from sandbox_skills.ci.suite import Case
    from sandbox_skills.workspace.manager import Invocation

SMOKE = "smoke: "
"""What the names of the usual checks begin with, so that `-k smoke` chooses them."""


@dataclass(frozen=True, slots=True)
class Sandboxed:
    """A case, and the command it comes to; `stdin` is that of a tool's handler."""

    case: Case
    invocation: Invocation
    stdin: bytes | None = None


@dataclass(frozen=True, slots=True)
class Looked:
    """A look at the skill's files, which runs nothing of it. Blocking."""

    look: Callable[[], tuple[Failure, ...]]


@dataclass(frozen=True, slots=True)
class Skipped:
    """Nothing is done, for a reason that a person gave."""

    reason: str


Work: TypeAlias = "Sandboxed | Looked | Skipped"


@dataclass(frozen=True, slots=True)
class Trial:
    """One line of a report: the skill's name and real folder, what it is called, where it comes from, what is done."""

    skill: str
    folder: Path
    name: str
    work: Work
    file: str = ""
    line: int | None = None

    @property
    def id(self) -> str:
        """What `-k` looks into, and what a person calls it."""
        return f"{self.skill}::{self.name}"
