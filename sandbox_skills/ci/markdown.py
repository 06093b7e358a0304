"""Results as Markdown, for the summary of a CI job. Pure."""

from __future__ import annotations

import html
import re
from itertools import groupby
from typing import TYPE_CHECKING

from sandbox_skills.ci.messages import failure_lines, headline, summary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandbox_skills.ci.results import TrialReport, TrialResult

MAX_DETAILS = 50
"""Failures with all their lines: a summary may have 1 MiB, and nobody reads more."""

MAX_LINES = 60
"""Lines of one failure."""

MAX_CELL = 200
"""Characters of a message in a table."""

_FENCE = re.compile(r"`{3,}")
_MARKS = re.compile(r"([\\`*_{}\[\]()#+\-.!|<>~])")


def markdown(report: TrialReport) -> str:
    """Returns the report: a table of skills, then what did not pass. No text of a skill becomes markup."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: TrialReport) -> Iterator[str]:
    yield "## Skill tests"
    yield ""
    yield summary(report)
    yield ""
    yield "| skill | passed | failed | flaky | sandbox failed | skipped | seconds |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for _, group in groupby(report.results, key=lambda one: one.trial.folder):
        yield _row(list(group))
    bad = [one for one in report.results if one.status in {"failed", "flaky", "error"}]
    for one in bad[:MAX_DETAILS]:
        yield from _details(one)
    if len(bad) > MAX_DETAILS:
        yield ""
        yield f"and {len(bad) - MAX_DETAILS} more"


def _row(results: list[TrialResult]) -> str:
    counts = [
        sum(one.status == word for one in results)
        for word in ("passed", "failed", "flaky", "error", "skipped")
    ]
    cells = [escaped(results[0].trial.skill), *map(str, counts), f"{sum(one.seconds for one in results):.1f}"]
    return f"| {' | '.join(cells)} |"


def _details(result: TrialResult) -> Iterator[str]:
    name = html.escape(" ".join(result.trial.id.split()))
    yield ""
    yield f"<details><summary>{name}: {html.escape(headline(result)[:MAX_CELL])}</summary>"
    yield ""
    yield "````text"
    lines = "\n".join(failure_lines(result)).splitlines()
    yield from (_FENCE.sub("'''", line) for line in lines[:MAX_LINES])
    yield "````"
    yield ""
    yield "</details>"


def escaped(text: str) -> str:
    """Returns a text on one line in which no character is markup."""
    return _MARKS.sub(r"\\\1", html.escape(" ".join(text.split()), quote=False)[:MAX_CELL])
