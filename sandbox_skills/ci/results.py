"""What came of trials, and of all of them. Plain values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from sandbox_skills.spec import ending_dict

if TYPE_CHECKING:
    from sandbox_skills.ci.observed import Failure, Observed
    from sandbox_skills.ci.trial import Trial
    from sandbox_skills.errors import EngineError

Status = Literal["passed", "failed", "flaky", "error", "skipped"]
"""`error` is a sandbox that failed, which says nothing of the skill; `flaky` passed and failed by turns."""

STATUSES: tuple[Status, ...] = ("passed", "failed", "flaky", "error", "skipped")


@dataclass(frozen=True, slots=True)
class TrialResult:
    """What came of one trial. `reason` is why it was skipped, or how its sandbox failed.

    `seen` is what the run that counts has shown: of several the first that failed. `attempts` are all, in their order.
    """

    trial: Trial
    status: Status
    failures: tuple[Failure, ...] = ()
    reason: str = ""
    seconds: float = 0.0
    seen: Observed | None = None
    attempts: tuple[Status, ...] = ()
    snapshots: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """Returns the one spelling of a result, for JSON."""
        trial, seen = self.trial, self.seen
        return {
            "skill": trial.skill,
            "folder": str(trial.folder),
            "name": trial.name,
            "file": trial.file,
            "line": trial.line,
            "status": self.status,
            "reason": self.reason,
            "seconds": round(self.seconds, 3),
            "attempts": list(self.attempts),
            "failures": [failure.as_dict() for failure in self.failures],
            "ending": None if seen is None else ending_dict(seen.outcome.ending),
            "updated_snapshots": list(self.snapshots),
        }


@dataclass(frozen=True, slots=True)
class TrialReport:
    """All results, in the order of skills and their cases; `fault` is why no sandbox could be had any more."""

    results: tuple[TrialResult, ...] = ()
    seconds: float = 0.0
    fault: EngineError | None = None

    def count(self, status: Status) -> int:
        """Returns how many results have a status."""
        return sum(one.status == status for one in self.results)

    @property
    def counts(self) -> dict[str, int]:
        """How many results have each status, by its name."""
        return {status: self.count(status) for status in STATUSES}

    @property
    def skills(self) -> int:
        """How many skills something was shown of."""
        return len({one.trial.folder for one in self.results})


def settled(attempts: list[TrialResult]) -> TrialResult:
    """Returns what several runs of one trial come to."""
    first = next((one for one in attempts if one.status != "passed"), attempts[0])
    statuses = tuple(one.status for one in attempts)
    mixed = "passed" in statuses and "failed" in statuses
    status: Status = "error" if "error" in statuses else "flaky" if mixed else first.status
    counted = next((one for one in attempts if one.status == status), first)
    return replace(counted, status=status, seconds=sum(one.seconds for one in attempts), attempts=statuses)
