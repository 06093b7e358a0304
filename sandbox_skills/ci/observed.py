"""What a case has shown, and what is said where that is not what was expected. Plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox_skills.spec import LimitName, Limits, Outcome
    from sandbox_skills.workspace.outputs import CollectedFile


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What a run did beside its outputs.

    `network` has the places it tried, `writes` the files of its workspace that it made or changed, as paths in it; None
    where nobody looked. `complete` is False where not every file could be looked at.
    """

    network: tuple[str, ...] | None = None
    writes: tuple[str, ...] | None = None
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Observed:
    """All that a case is compared with. `hints` are likely reasons of a failure, each a line."""

    outcome: Outcome
    limits: Limits
    files: tuple[CollectedFile, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict[str, str])
    limits_hit: frozenset[LimitName] = frozenset()
    hints: tuple[str, ...] = ()
    behaviour: Behaviour = Behaviour()


@dataclass(frozen=True, slots=True)
class Failure:
    """One expectation that does not hold: which, why in words for a person, and the lines that differ."""

    expectation: str
    message: str
    diff: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """Returns the failure for JSON."""
        return {"expectation": self.expectation, "message": self.message, "diff": list(self.diff)}
