"""What comes of a run: how it ended, what it was given, what was collected of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox_skills.spec import LimitName, Outcome
    from sandbox_skills.workspace.hints import Hint
    from sandbox_skills.workspace.inputs import StagedInput
    from sandbox_skills.workspace.outputs import CollectedFile
    from sandbox_skills.workspace.report import OutputReport


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run did and what was collected of it.

    `skipped` are outputs that were left, and why. `limits_hit` has the limits of the run and of the collection.
    `notes` say what was not as the skill or the caller may expect. `hints` are likely reasons of a failure.
    `report` is there where outputs were asked for as a tool does.
    """

    run_id: str
    skill: str
    digest: str
    outcome: Outcome
    files: tuple[CollectedFile, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict[str, str])
    limits_hit: frozenset[LimitName] = frozenset()
    notes: tuple[str, ...] = ()
    staged_inputs: tuple[StagedInput, ...] = ()
    hints: tuple[Hint, ...] = ()
    report: OutputReport | None = None

    def as_dict(self) -> dict[str, object]:
        """Returns the one spelling of a result, for JSON."""
        return {
            "run_id": self.run_id,
            "skill": self.skill,
            "digest": self.digest,
            **self.outcome.as_dict(),
            "limits_hit": sorted(self.limits_hit),
            "files": [file.as_dict() for file in self.files],
            "skipped": dict(self.skipped),
            "notes": list(self.notes),
            "staged_inputs": [row.as_dict() for row in self.staged_inputs],
            "hints": [hint.as_dict() for hint in self.hints],
            **(self.report.as_dict() if self.report is not None else {}),
        }
