"""The last hour in figures: counts, percentiles, and one bar for each five minutes. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox_skills.daemon.ui.views.formatting import counted, duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandbox_skills.daemon.truth.run_tally import RunTally
    from sandbox_skills.daemon.ui.views.runs import RunRow

HOUR_SECONDS = 3600.0
BAR_SECONDS = 300.0
BARS = int(HOUR_SECONDS / BAR_SECONDS)


@dataclass(frozen=True, slots=True)
class Bar:
    """Runs that ended in five minutes; heights are parts of 100."""

    height: float
    failed_height: float


@dataclass(frozen=True, slots=True)
class Load:
    """What goes on just now. `warm` is None where no box is started ahead."""

    running: int
    slots: int
    queued: int
    queued_elsewhere: int
    warm: int | None


@dataclass(frozen=True, slots=True)
class OverviewPage:
    """The first page, as texts."""

    running: int
    slots: int
    queued: int
    queue_note: str
    warm: str
    pool_note: str
    ended: str
    failed: int
    failed_part: str
    p50: str
    p95: str
    bars: tuple[Bar, ...]
    chart_words: str
    notes: tuple[str, ...]
    recent: tuple[RunRow, ...]


def overview_page(
    load: Load, tally: RunTally, recent: Sequence[RunRow], *, notes: Sequence[str] = ()
) -> OverviewPage:
    """Returns the first page; the tally is of the last hour, in steps of BAR_SECONDS."""
    ended, failed = sum(tally.ended.values()), sum(tally.failed.values())
    p95 = duration(percentile(tally.seconds, 95))
    return OverviewPage(
        running=load.running,
        slots=load.slots,
        queued=load.queued,
        queue_note=f"{load.queued_elsewhere} of others" if load.queued_elsewhere else "none of others",
        warm="off" if load.warm is None else str(load.warm),
        pool_note="none is started ahead" if load.warm is None else "ready to take a run",
        ended=f"{ended:,}",
        failed=failed,
        failed_part=f"{100 * failed / ended:.1f} %" if ended else "of none",
        p50=duration(percentile(tally.seconds, 50)),
        p95=p95,
        bars=bars(tally),
        chart_words=f"{counted(ended, 'run')} ended in the last hour, {failed} failed; p95 {p95}",
        notes=tuple(notes),
        recent=tuple(recent),
    )


def percentile(ordered: Sequence[float], percent: float) -> float | None:
    """Returns the nearest-rank percentile of values in ascending order, None without any."""
    if not ordered:
        return None
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def bars(tally: RunTally) -> tuple[Bar, ...]:
    """Returns one bar for each five minutes of the hour, the last of which is now."""
    totals, failures = [0] * BARS, [0] * BARS
    for step, count in tally.ended.items():
        # What ended between the question and its answer belongs to now.
        place = min(BARS - 1, max(0, step))
        totals[place] += count
        failures[place] += tally.failed.get(step, 0)
    tallest = max(*totals, 1)
    return tuple(
        Bar(100 * total / tallest, 100 * failed / tallest)
        for total, failed in zip(totals, failures, strict=True)
    )
