"""Of several ceilings the lowest counts, each by itself."""

from __future__ import annotations

from dataclasses import fields

from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.policy import RunLimits, lowest

CEILINGS = st.builds(
    RunLimits,
    wall_seconds=st.none() | st.floats(0.1, 900),
    cpu_seconds=st.none() | st.floats(0.1, 900),
    stdout_bytes=st.none() | st.integers(1, 1000),
    stderr_bytes=st.none() | st.integers(1, 1000),
)


@given(st.lists(CEILINGS, max_size=3))
def test_of_those_that_are_given(ceilings: list[RunLimits]) -> None:
    found = lowest(*ceilings)
    for name in (one.name for one in fields(RunLimits)):
        given_ones = [value for one in ceilings if (value := getattr(one, name)) is not None]
        assert getattr(found, name) == (min(given_ones) if given_ones else None)
