"""The last hour in figures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.daemon.ui.figures import BARS, EndedRun, hour_figures, percentile

NOW = 10_000.0


def test_an_hour_without_a_run_has_no_percentile() -> None:
    figures = hour_figures([], NOW)
    assert (figures.ended, figures.failed, figures.p50, figures.p95) == (0, 0, None, None)
    assert [bar.height for bar in figures.bars] == [0] * BARS


def test_only_the_last_hour_counts_and_the_last_bar_is_now() -> None:
    runs = [
        EndedRun(NOW - 3601, 9.0, failed=True),
        EndedRun(NOW - 3599, 1.0, failed=False),
        EndedRun(NOW - 1, 2.0, failed=True),
        EndedRun(NOW, 3.0, failed=False),
        EndedRun(NOW + 5, 9.0, failed=False),
    ]
    figures = hour_figures(runs, NOW)
    assert (figures.ended, figures.failed, figures.p50, figures.p95) == (3, 1, 2.0, 3.0)
    assert (figures.bars[0].total, figures.bars[-1].total, figures.bars[-1].failed) == (1, 2, 1)
    assert (figures.bars[-1].height, figures.bars[-1].failed_height) == (100, 50)


@pytest.mark.parametrize(("percent", "expected"), [(50, 10.0), (95, 19.0), (100, 20.0), (0, 1.0)])
def test_percentiles_are_values_that_occurred(percent: float, expected: float) -> None:
    assert percentile([float(value) for value in range(1, 21)], percent) == expected


@given(st.lists(st.floats(NOW - 4000, NOW + 100), max_size=50))
def test_bars_hold_every_run_of_the_hour_once(times: list[float]) -> None:
    figures = hour_figures([EndedRun(at, 1.0, failed=False) for at in times], NOW)
    assert sum(bar.total for bar in figures.bars) == figures.ended
    assert max(bar.height for bar in figures.bars) <= 100
