"""How many boxes should wait: what callers and starts make of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.engines.demand import Demand, enough, shares


def after(callers_per_second: float, seconds: float, *, start: float = 0.3, minimum: int = 0) -> Demand:
    demand = Demand(minimum)
    demand.started(start)
    for number in range(int(callers_per_second * seconds)):
        demand.ask(number / callers_per_second)
    return demand


@pytest.mark.parametrize(
    ("rate", "start", "wanted"), [(0.05, 0.3, 0), (1, 0.3, 1), (3, 0.3, 3), (10, 0.3, 6), (3, 3.0, 15)]
)
def test_boxes_follow_the_rate_of_callers_and_the_time_of_a_start(
    rate: float, start: float, wanted: int
) -> None:
    assert after(rate, 120, start=start).wanted(120) == pytest.approx(wanted, abs=1 if wanted > 3 else 0)


def test_one_caller_is_no_demand_and_a_few_are() -> None:
    demand = Demand()
    demand.ask(0)
    assert demand.wanted(0) == 0
    demand.ask(1)
    demand.ask(2)
    assert demand.wanted(2) == 1


def test_demand_falls_slowly_and_to_the_minimum() -> None:
    demand = after(5, 120, minimum=1)
    busy = demand.wanted(120)
    assert (demand.wanted(180), busy > 2) == (1, True)
    assert 1 < demand.kept(180) <= busy
    assert demand.kept(2_000) == 1


def test_a_start_that_takes_longer_now_and_then_counts_for_little() -> None:
    demand = after(3, 60)
    usual = demand.wanted(60)
    demand.started(1.0)
    assert usual <= demand.wanted(60) <= usual + 2


@given(st.floats(0, 1e3))
def test_enough_never_falls_with_the_mean(mean: float) -> None:
    assert 0 <= enough(mean) <= enough(mean + 1)


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_a_clock_that_stands_or_jumps_back_breaks_nothing(times: list[float]) -> None:
    demand = Demand(2)
    for now in times:
        demand.ask(now)
        assert 2 <= demand.wanted(now) <= demand.kept(now)


@given(st.lists(st.integers(0, 20), max_size=6), st.integers(0, 64))
def test_shares_are_fair_and_never_more_than_there_is(wanted: list[int], maximum: int) -> None:
    given = shares(wanted, maximum)
    assert sum(given) == min(maximum, sum(wanted))
    assert all(0 <= share <= want for share, want in zip(given, wanted, strict=True))
    lacking = [share for share, want in zip(given, wanted, strict=True) if share < want]
    assert all(share <= min(lacking) + 1 for share in given) if lacking else given == wanted
