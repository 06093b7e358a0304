from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.daemon.access.rates import RateLimiter, full_bucket, take
from sandbox_skills.daemon.errors import RateLimitedError

CAPACITY = st.integers(1, 1000)
TIMES = st.lists(st.floats(0, 30, allow_nan=False), max_size=60)


@given(CAPACITY, TIMES)
def test_in_no_minute_are_more_allowed_than_two_minutes_worth(capacity: int, pauses: list[float]) -> None:
    bucket, now, allowed = full_bucket(capacity, seconds=60.0, now=0.0), 0.0, 0
    for pause in pauses:
        now += pause
        bucket, allowance = take(bucket, now=now)
        allowed += allowance.is_allowed
    assert allowed <= capacity + now * capacity / 60 + 1


@given(CAPACITY, TIMES)
def test_the_values_of_the_headers_are_such_that_a_client_can_follow_them(
    capacity: int, pauses: list[float]
) -> None:
    bucket, now = full_bucket(capacity, seconds=60.0, now=0.0), 0.0
    for pause in pauses:
        now += pause
        bucket, allowance = take(bucket, now=now)
        assert allowance.limit == capacity
        assert 0 <= allowance.remaining <= capacity
        assert 0 <= allowance.reset <= 60.0 + 1e-6
        assert allowance.is_allowed == (allowance.retry_after == 0)
        if not allowance.is_allowed:
            assert allowance.remaining == 0
            _, later = take(bucket, now=now + allowance.retry_after)
            assert later.is_allowed
        _, whole = take(bucket, now=now + allowance.reset)
        assert whole.remaining == capacity - 1


def test_a_refused_request_costs_nothing() -> None:
    bucket, _ = take(full_bucket(1, seconds=60.0, now=0.0), now=0.0)
    for _ in range(10):
        bucket, refused = take(bucket, now=1.0)
        assert not refused.is_allowed
    assert take(bucket, now=60.0)[1].is_allowed


def test_a_clock_that_goes_back_gives_nothing() -> None:
    bucket, _ = take(full_bucket(1, seconds=60.0, now=100.0), now=100.0)
    bucket, refused = take(bucket, now=0.0)
    assert not refused.is_allowed
    assert not take(bucket, now=130.0)[1].is_allowed


def test_each_tenant_has_its_own() -> None:
    limiter = RateLimiter()
    assert limiter.check("a", per_minute=1, now=0.0).remaining == 0
    with pytest.raises(RateLimitedError) as caught:
        limiter.check("a", per_minute=1, now=0.0)
    assert (caught.value.name, caught.value.limit, caught.value.remaining) == ("runs_per_minute", 1, 0)
    assert math.isclose(caught.value.retry_after, 60.0, rel_tol=1e-6)
    assert limiter.check("b", per_minute=1, now=0.0).is_allowed


def test_another_limit_counts_from_then_on() -> None:
    limiter = RateLimiter()
    limiter.check("a", per_minute=1, now=0.0)
    assert limiter.check("a", per_minute=5, now=0.0).remaining == 4
