"""The last hour in figures: counts, percentiles, and one bar for each five minutes. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

HOUR_SECONDS = 3600.0
BAR_SECONDS = 300.0
BARS = int(HOUR_SECONDS / BAR_SECONDS)


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A run that ended: when, how long it took from its start, whether it failed."""

    finished_at: float
    seconds: float
    failed: bool


@dataclass(frozen=True, slots=True)
class Bar:
    """Runs that ended in five minutes; heights are parts of 100."""

    total: int
    failed: int
    height: float
    failed_height: float


@dataclass(frozen=True, slots=True)
class HourFigures:
    """What happened in an hour. Percentiles are seconds, None without a run."""

    ended: int
    failed: int
    p50: float | None
    p95: float | None
    bars: tuple[Bar, ...]


def hour_figures(runs: Sequence[EndedRun], now: float) -> HourFigures:
    """Returns the figures of the hour before `now`; runs outside of it do not count."""
    inside = [run for run in runs if now - HOUR_SECONDS < run.finished_at <= now]
    seconds = sorted(run.seconds for run in inside)
    failed = sum(run.failed for run in inside)
    return HourFigures(
        len(inside), failed, percentile(seconds, 50), percentile(seconds, 95), _bars(inside, now)
    )


def percentile(ordered: Sequence[float], percent: float) -> float | None:
    """Returns the nearest-rank percentile of values in ascending order, None without any."""
    if not ordered:
        return None
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def _bars(runs: Sequence[EndedRun], now: float) -> tuple[Bar, ...]:
    totals, failures = [0] * BARS, [0] * BARS
    for run in runs:
        place = BARS - 1 - min(BARS - 1, int((now - run.finished_at) // BAR_SECONDS))
        totals[place] += 1
        failures[place] += run.failed
    tallest = max(*totals, 1)
    return tuple(
        Bar(total, failed, 100 * total / tallest, 100 * failed / tallest)
        for total, failed in zip(totals, failures, strict=True)
    )
