"""Which copies go: the old ones, then the longest unused for room, never one in use."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.workspace.eviction import RECENT_SECONDS, USE_SECONDS, Copy, victims

NOW = 1_000_000.0
HOUR = 3600.0
UP = 500 * HOUR


def names(
    copies: list[Copy],
    *,
    now: float = NOW,
    up: float = UP,
    max_age: float = 1e9,
    max_bytes: int = 10**9,
    in_use: frozenset[str] = frozenset(),
) -> list[str]:
    gone = victims(copies, now=now, up=up, max_age=max_age, max_bytes=max_bytes, in_use=in_use)
    return [copy.name for copy in gone]


def used(name: str, hours_ago: float, size: int = 10) -> Copy:
    return Copy(name, size, NOW - hours_ago * HOUR, UP - hours_ago * HOUR)


def test_what_is_older_than_allowed_goes() -> None:
    assert names([used("new", 1), used("old", 3), used("older", 4)], max_age=2 * HOUR) == ["older", "old"]


def test_the_longest_unused_make_room_until_the_rest_fits() -> None:
    assert names([used("a", 2), used("b", 4), used("c", 3)], max_bytes=15) == ["b", "c"]
    assert names([used("a", 2), used("b", 4), used("c", 3)], max_bytes=30) == []


def test_a_copy_in_use_stays() -> None:
    assert names([used("a", 9), used("b", 8)], max_age=0, max_bytes=0, in_use=frozenset({"a"})) == ["b"]


def test_a_copy_of_the_last_hour_does_not_make_room_but_can_be_too_old() -> None:
    assert names([used("a", 0.5)], max_bytes=0) == []
    assert names([used("a", 0.5)], max_age=60) == ["a"]


def test_a_clock_that_jumps_takes_nothing_that_a_process_may_still_use() -> None:
    copies = [used("a", 0.5), used("b", 2)]
    year = 365 * 24 * HOUR
    assert names(copies, now=NOW + year, max_age=30 * 24 * HOUR) == ["b"]
    assert names(copies, now=NOW + year, max_bytes=0) == ["b"]
    assert names(copies, now=NOW - year, max_age=60, max_bytes=0) == []


def test_what_was_used_before_the_host_started_anew_goes_by_the_clock() -> None:
    assert names([used("a", 2)], up=60.0, max_age=HOUR) == ["a"]
    assert names([used("a", 2)], up=60.0, max_age=3 * HOUR) == []


@given(st.floats(0, USE_SECONDS), st.floats(0, 1e5), st.floats(0, 1e6))
def test_a_use_that_was_not_written_down_counts_like_one_that_was(
    before: float, since: float, max_age: float
) -> None:
    marked = (before + since) / HOUR
    gone = names([used("a", marked)], max_age=max_age, max_bytes=0)
    assert since > min(max_age, RECENT_SECONDS) - 1e-3 or not gone


copies = st.lists(
    st.builds(used, st.text("abcdef", min_size=1, max_size=4), st.floats(0, 100), st.integers(0, 1000)),
    unique_by=lambda copy: copy.name,
)


@given(copies, st.floats(0, 1e6), st.integers(0, 5000))
def test_what_stays_is_young_and_small_or_recent(found: list[Copy], max_age: float, max_bytes: int) -> None:
    gone = victims(found, now=NOW, up=UP, max_age=max_age, max_bytes=max_bytes, in_use=())
    stays = [copy for copy in found if copy not in gone]
    assert all(NOW - copy.used_at <= max_age + USE_SECONDS for copy in stays)
    settled = [copy for copy in stays if NOW - copy.used_at > RECENT_SECONDS + USE_SECONDS]
    assert not settled or sum(copy.bytes for copy in stays) <= max_bytes
