"""How fast output may come: a burst at once, then so much a second."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.engines.pace import OUTPUT_BURST, OUTPUT_RATE, Pace

START = 1_000.0


def test_a_burst_comes_at_once_and_what_is_more_has_to_wait() -> None:
    pace = Pace(rate=10, burst=100)
    assert pace.taken(100, START) == 0
    assert pace.taken(5, START) == pytest.approx(0.5)
    assert pace.taken(5, START) == pytest.approx(1.0)


def test_a_rest_makes_room_again_but_never_for_more_than_a_burst() -> None:
    pace = Pace(rate=10, burst=100)
    pace.taken(110, START)
    assert pace.taken(0, START + 1) == 0
    assert pace.taken(101, START + 1_000) == pytest.approx(0.1)


@given(st.lists(st.integers(0, 1024 * 1024), min_size=1, max_size=200))
def test_whoever_rests_as_told_takes_no_more_than_the_rate_and_a_burst(counts: list[int]) -> None:
    pace, now = Pace(), START
    for count in counts:
        now += pace.taken(count, now)
    assert sum(counts) <= OUTPUT_BURST + OUTPUT_RATE * (now - START) + 1
