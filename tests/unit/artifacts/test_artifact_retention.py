"""Which versions a policy takes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.artifacts import Artifact, ArtifactQuota, RetentionPolicy, Usage
from sandbox_skills.artifacts.retention import check_quota, victims
from sandbox_skills.errors import QuotaError

NOW = 100.0
ONE = Artifact("a", 0, "text/plain", 10, "0" * 64, "", "", "", 0.0)
KEPT = st.lists(
    st.builds(
        lambda name, version, size, created: replace(
            ONE, name=name, version=version, size=size, created=created
        ),
        st.sampled_from("abc"),
        st.integers(0, 5),
        st.integers(0, 20),
        st.floats(0, NOW),
    ),
    unique_by=lambda one: (one.name, one.version),
)
LIMIT = st.none() | st.integers(0, 50)


def kept(*names: tuple[str, int, float]) -> list[Artifact]:
    return [replace(ONE, name=name, version=version, created=created) for name, version, created in names]


def taken(artifacts: list[Artifact], policy: RetentionPolicy) -> list[tuple[str, int]]:
    return [(one.name, one.version) for one in victims(artifacts, policy, now=NOW)]


def test_no_limit_takes_nothing() -> None:
    assert not taken(kept(("a", 0, 0), ("a", 1, 1)), RetentionPolicy())


def test_age_takes_the_latest_too() -> None:
    assert taken(kept(("a", 1, 50), ("a", 0, 49), ("b", 0, 91)), RetentionPolicy(max_age=10)) == [
        ("a", 0),
        ("a", 1),
    ]


def test_count_takes_the_oldest_first_but_never_the_latest_of_a_name() -> None:
    artifacts = kept(("old", 0, 1), ("a", 0, 2), ("a", 1, 3), ("a", 2, 4))
    assert taken(artifacts, RetentionPolicy(max_count=3)) == [("a", 0)]
    assert taken(artifacts, RetentionPolicy(max_count=0)) == [("a", 0), ("a", 1)]


def test_the_latest_is_by_version_whatever_the_clock_did() -> None:
    assert taken(kept(("a", 0, 9), ("a", 1, 1)), RetentionPolicy(max_count=1)) == [("a", 0)]


def test_bytes_take_no_more_than_needed() -> None:
    artifacts = kept(("a", 0, 1), ("a", 1, 2), ("a", 2, 3))
    assert taken(artifacts, RetentionPolicy(max_bytes=20)) == [("a", 0)]


def test_what_age_took_makes_room() -> None:
    artifacts = kept(("a", 0, 1), ("b", 0, 95), ("b", 1, 96))
    assert taken(artifacts, RetentionPolicy(max_age=50, max_count=2)) == [("a", 0)]


@given(artifacts=KEPT, age=st.none() | st.floats(0, NOW), count=LIMIT, size=LIMIT)
def test_what_is_left_is_within_the_limits_or_only_latest_versions(
    artifacts: list[Artifact], age: float | None, count: int | None, size: int | None
) -> None:
    gone = victims(artifacts, RetentionPolicy(age, count, size), now=NOW)
    left = [one for one in artifacts if one not in gone]
    assert len(gone) + len(left) == len(artifacts)
    assert age is None or all(NOW - one.created <= age for one in left)
    within = (count is None or len(left) <= count) and (size is None or sum(o.size for o in left) <= size)
    assert within or len({one.name for one in left}) == len(left)
    for name in {one.name for one in artifacts}:
        latest = max((one for one in artifacts if one.name == name), key=lambda one: one.version)
        assert latest in left or (age is not None and NOW - latest.created > age)


@pytest.mark.parametrize(
    ("usage", "size", "fits"),
    [
        (Usage(), 10, True),
        (Usage(), 11, False),
        (Usage(count=1, bytes=10), 0, True),
        (Usage(count=1, bytes=10), 1, False),
        (Usage(count=2), 0, False),
        (Usage(count=1, bytes=99), 0, False),  # the quota was made smaller
    ],
)
def test_a_quota_is_reached_and_not_passed(usage: Usage, size: int, *, fits: bool) -> None:
    quota = ArtifactQuota(count=2, bytes=10)
    if fits:
        check_quota(usage, quota, size=size)
        return
    with pytest.raises(QuotaError) as caught:
        check_quota(usage, quota, size=size)
    assert "artifacts.max_" in caught.value.hint
