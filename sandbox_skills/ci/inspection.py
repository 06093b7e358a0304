"""What a skill that nobody knows was seen to do, beside what it says of itself. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sandbox_skills.ci.declared import (
    host_surprise,
    program_surprise,
    read_surprise,
    variable_surprise,
    write_surprise,
)
from sandbox_skills.ci.network import hosts_tried
from sandbox_skills.ci.syntax import MAX_SCRIPTS
from sandbox_skills.spec import SKILLS, ending_dict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sandbox_skills.ci.declared import Declared
    from sandbox_skills.recording import Event, Recording
    from sandbox_skills.spec import Outcome

FindingKind = Literal["network", "program", "write", "read", "variable"]

_STAGED = re.compile(rf"{SKILLS}/[0-9a-f]{{16,64}}(?=/|$)")

UNSEEN = (
    "what a program did not come to: other arguments, inputs or a network that answers may lead elsewhere",
    "the name behind an address, where a program asks for it in a way of its own; only the question over UDP is read",
    "the port of a host whose name was only looked up: nothing answers here, so nothing connects",
    "sockets of a kind that the sandbox refuses (raw, packet): the refusal comes before the recorder",
    "what a program does to hide: it can tell that it is watched, and change an address while the kernel reads it",
    "reads of programs and libraries below /usr, and of the skill's own folder, which are left out",
    "memory of all processes together: what is told is that of the largest",
    f"variables by any name that is not written in a script, or in none of the first {MAX_SCRIPTS}",
)
"""What the report cannot know."""


@dataclass(frozen=True, slots=True)
class InspectedRun:
    """One run that was recorded: its command as a person would type it, and what came of it."""

    command: str
    outcome: Outcome

    def as_dict(self) -> dict[str, object]:
        """Returns the run for JSON, without what it printed."""
        one = self.outcome
        return {
            "command": self.command,
            "ending": ending_dict(one.ending),
            "limits_hit": sorted(one.limits_hit),
            "wall_seconds": round(one.wall_seconds, 3),
            "cpu_seconds": round(one.cpu_seconds, 3),
            "max_rss": one.max_rss,
            "recorded": one.recording is not None,
        }


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was seen, or that a script names; `surprise` says why it is one, "" where it is none."""

    kind: FindingKind
    what: str
    detail: str = ""
    count: int = 1
    surprise: str = ""

    def as_dict(self) -> dict[str, object]:
        """Returns the finding for JSON."""
        return {
            "kind": self.kind,
            "what": self.what,
            "detail": self.detail,
            "count": self.count,
            "surprise": self.surprise or None,
        }


@dataclass(frozen=True, slots=True)
class Inspection:
    """The whole report.

    `lost` counts by kind what a recording had no room for, `left_out` the scripts that were too many to be started.
    """

    skill: str
    runs: tuple[InspectedRun, ...]
    findings: tuple[Finding, ...]
    lost: Mapping[str, int]
    left_out: int = 0

    @property
    def surprises(self) -> int:
        """How many findings nobody was told of."""
        return sum(bool(one.surprise) for one in self.findings)

    def as_dict(self) -> dict[str, object]:
        """Returns the report for JSON."""
        return {
            "skill": self.skill,
            "runs": [one.as_dict() for one in self.runs],
            "findings": [one.as_dict() for one in self.findings],
            "surprises": self.surprises,
            "lost": dict(self.lost),
            "left_out": self.left_out,
            "unseen": list(UNSEEN),
        }


def inspection(
    skill: str,
    declared: Declared,
    runs: Sequence[InspectedRun],
    variables: Mapping[str, str],
    *,
    left_out: int = 0,
) -> Inspection:
    """Returns the report; `variables` has those that scripts name, with the scripts."""
    lost: dict[str, int] = {}
    for one in recordings(runs):
        for kind, count in one.lost.items():
            lost[kind] = lost.get(kind, 0) + count
    findings = (*_network(declared, runs), *_events(declared, runs), *_variables(declared, variables))
    return Inspection(skill, tuple(runs), findings, lost, left_out)


def recordings(runs: Sequence[InspectedRun]) -> tuple[Recording, ...]:
    """Returns what was recorded; a run that took its sandbox with it left nothing."""
    return tuple(run.outcome.recording for run in runs if run.outcome.recording is not None)


def _network(declared: Declared, runs: Sequence[InspectedRun]) -> Iterator[Finding]:
    counts: dict[str, int] = {}
    for one in recordings(runs):
        for place in hosts_tried(one):
            counts[place] = counts.get(place, 0) + 1
    for place, count in counts.items():
        yield Finding("network", place, count=count, surprise=host_surprise(declared, place))


def _events(declared: Declared, runs: Sequence[InspectedRun]) -> Iterator[Finding]:
    seen: dict[tuple[FindingKind, str], Finding] = {}
    for event in (event for one in recordings(runs) for event in one.events):
        finding = _finding(declared, event)
        if finding is not None:
            key = finding.kind, finding.what
            count = finding.count + (seen[key].count if key in seen else 0)
            first = seen.get(key, finding)
            seen[key] = Finding(first.kind, first.what, first.detail, count, first.surprise)
    order = {"program": 0, "write": 1, "read": 2}
    yield from sorted(seen.values(), key=lambda one: (order[one.kind], not one.surprise))


def _finding(declared: Declared, event: Event) -> Finding | None:
    what = _STAGED.sub("<skill>", event.what)
    match event.kind:
        case "program":
            detail = _STAGED.sub("<skill>", event.detail)
            return Finding("program", what, detail, event.count, program_surprise(declared, event.what))
        case "write":
            return Finding("write", what, "", event.count, write_surprise(event.what))
        case "read":
            return Finding("read", what, "", event.count, read_surprise(declared, event.what))
        case _:
            return None


def _variables(declared: Declared, variables: Mapping[str, str]) -> Iterator[Finding]:
    for name, scripts in variables.items():
        yield Finding("variable", name, scripts, surprise=variable_surprise(declared, name))
