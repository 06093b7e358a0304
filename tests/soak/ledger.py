"""What the clients were told, to be asked for again at the end: a record that is lost shows here."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sandbox_skills.client import Rejected, SandboxFailed
from sandbox_skills.errors import SandboxSkillsError

if TYPE_CHECKING:
    from sandbox_skills.client import Run, SkillsClient

PROBLEMS_SHOWN = 10


@dataclass(slots=True)
class Ledger:
    """What one tenant was told: runs that were accepted, artifacts that were reported."""

    runs: set[str] = field(default_factory=set[str])
    artifacts: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    done: Counter[str] = field(default_factory=Counter[str])
    errors: Counter[str] = field(default_factory=Counter[str])
    wrong: list[str] = field(default_factory=list[str])

    def take(self, run: Run) -> None:
        """Takes down what a run came to."""
        self.runs.add(run.id)
        for one in (run.result or {}).get("artifact_files", ()) or ():  # type: ignore[attr-defined]  # JSON
            self.artifacts.add((one["name"], one["version"]))

    def expect(self, run: Run, *, stdout: str) -> None:
        """Takes down a run, and what is wrong with it; one whose sandbox was lost by a fault is none of those."""
        self.take(run)
        if isinstance(run.outcome, SandboxFailed | Rejected):
            self.errors[run.outcome.code] += 1
        elif not run.ok or run.stdout != stdout:
            self.wrong.append(f"run {run.id}: {run.outcome} {run.stdout[:80]!r} instead of {stdout[:80]!r}")

    async def lost(self, client: SkillsClient) -> list[str]:
        """Returns what was told and is not there, or never came to an end."""
        missing: list[str] = []
        for run_id in sorted(self.runs):
            try:
                run = await client.runs.wait(run_id, seconds=120)
            except (SandboxSkillsError, TimeoutError) as error:
                missing.append(f"run {run_id}: {error!r}")
                continue
            if run.outcome is None:
                missing.append(f"run {run_id} has no outcome")
        for name, version in sorted(self.artifacts):
            try:
                found = [piece async for piece in client.artifacts.content(name, version)]
            except SandboxSkillsError as error:
                missing.append(f"artifact {name}@{version}: {error!r}")
                continue
            if b"".join(found) != name.rpartition("/")[2].encode() + b"\n":
                missing.append(f"artifact {name}@{version} has other bytes")
        return missing
