"""The last hour in figures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.daemon.truth.run_tally import RunTally
from sandbox_skills.daemon.ui.views.figures import BARS, Bar, Load, bars, overview_page, percentile

NO_RUNS = RunTally({}, {}, ())
LOAD = Load(running=1, slots=8, queued=2, queued_elsewhere=0, warm=3)


def test_an_hour_without_a_run_has_no_percentile_and_no_bars() -> None:
    view = overview_page(LOAD, NO_RUNS, ())
    assert (view.ended, view.failed, view.failed_part, view.p95) == ("0", 0, "of none", "\N{EN DASH}")
    assert view.bars == (Bar(0, 0),) * BARS


def test_the_first_page_tells_the_load_and_the_hour() -> None:
    view = overview_page(LOAD, RunTally({0: 1, 11: 3}, {11: 1}, (1.0, 2.0, 3.0, 4.0)), (), notes=["n"])
    assert (view.running, view.slots, view.queued, view.warm) == (1, 8, 2, "3")
    assert (view.ended, view.failed, view.failed_part, view.p50, view.p95) == (
        "4",
        1,
        "25.0 %",
        "2.0 s",
        "4.0 s",
    )
    assert view.chart_words == "4 runs ended in the last hour, 1 failed; p95 4.0 s"
    assert view.notes == ("n",)


def test_a_server_that_starts_no_box_ahead_says_so() -> None:
    view = overview_page(Load(running=0, slots=1, queued=0, queued_elsewhere=7, warm=None), NO_RUNS, ())
    assert (view.warm, view.queue_note) == ("off", "7 of others")


@pytest.mark.parametrize(("percent", "expected"), [(50, 10.0), (95, 19.0), (100, 20.0), (0, 1.0)])
def test_percentiles_are_values_that_occurred(percent: float, expected: float) -> None:
    assert percentile([float(value) for value in range(1, 21)], percent) == expected


@given(st.dictionaries(st.integers(-2, BARS + 2), st.integers(1, 1000)))
def test_bars_are_never_higher_than_the_chart_and_the_tallest_fills_it(ended: dict[int, int]) -> None:
    heights = [bar.height for bar in bars(RunTally(ended, {}, ()))]
    assert len(heights) == BARS
    assert max(heights) == pytest.approx(100 if ended else 0)
