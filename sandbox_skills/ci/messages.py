"""Results in words, for every report. Pure; texts of skills are as they are, whoever shows them makes them harmless."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandbox_skills.ci.results import TrialReport, TrialResult

MAX_FAILURES = 20
"""Failures of one case that are told: what went wrong first explains the rest."""


def headline(result: TrialResult) -> str:
    """Returns one line on why a trial did not pass."""
    if result.reason:
        return result.reason
    first = result.failures[0].message if result.failures else ""
    more = f" (and {len(result.failures) - 1} more)" if len(result.failures) > 1 else ""
    return f"{_flaky(result)}{first.replace(chr(10), ' ')}{more}"


def failure_lines(result: TrialResult) -> Iterator[str]:
    """Yields all that is to be told of a trial that did not pass, place and diffs included."""
    trial = result.trial
    if trial.file:
        yield f"at {trial.file}{f':{trial.line}' if trial.line is not None else ''}"
    if result.reason:
        yield result.reason
    if told := _flaky(result).strip():
        yield told.rstrip(":")
    for failure in result.failures[:MAX_FAILURES]:
        yield f"{failure.expectation}: {failure.message}"
        yield from (f"  {line}" for line in failure.diff)
    if len(result.failures) > MAX_FAILURES:
        yield f"and {len(result.failures) - MAX_FAILURES} more"


def _flaky(result: TrialResult) -> str:
    if result.status != "flaky":
        return ""
    failed = sum(status != "passed" for status in result.attempts)
    return f"failed in {failed} of {len(result.attempts)} runs: "


def summary(report: TrialReport) -> str:
    """Returns the last line: what was run, and how many of it had which end."""
    counts = ", ".join(f"{number} {status}" for status, number in report.counts.items() if number)
    skills = "1 skill" if report.skills == 1 else f"{report.skills} skills"
    return f"{skills}: {counts or 'nothing to run'}, in {report.seconds:.1f} s"
