"""The time that a run asks for, and the rule of who shares a box with secrets."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.errors import GrantConflictError
from sandbox_skills.policy import RunLimits
from sandbox_skills.spec import Limits
from sandbox_skills.workspace.grants import BoxGrants
from sandbox_skills.workspace.request import below, within_ceiling

USUAL = Limits(wall_seconds=300)


@pytest.mark.parametrize(
    ("asked", "given_", "warned"),
    [
        (0, 300, False),
        (-1, 300, False),
        (math.nan, 300, False),
        (0.5, 0.5, False),
        (900, 900, False),
        (900.5, 900, True),
        (math.inf, 900, True),
    ],
)
def test_a_time_above_the_ceiling_is_cut_and_said(asked: float, given_: float, warned: bool) -> None:  # noqa: FBT001
    limits, warnings = within_ceiling(USUAL, asked, 900)
    assert (limits.wall_seconds, bool(warnings)) == (given_, warned)


@given(st.floats())
def test_no_time_that_is_asked_for_is_above_the_ceiling(asked: float) -> None:
    limits, _ = within_ceiling(USUAL, asked, 900)
    assert 0 < limits.wall_seconds <= 900


def test_no_limit_is_above_the_ceilings_of_a_policy() -> None:
    usual = Limits(wall_seconds=60, stdout_bytes=100, stderr_bytes=5)
    assert below(usual, RunLimits()) == usual
    ceilings = RunLimits(wall_seconds=90, cpu_seconds=7, stdout_bytes=10, stderr_bytes=10)
    assert below(usual, ceilings) == replace(usual, cpu_seconds=7, stdout_bytes=10)
    assert below(replace(usual, cpu_seconds=3), RunLimits(wall_seconds=1, cpu_seconds=7)) == replace(
        usual, wall_seconds=1, cpu_seconds=3
    )


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=12))
def test_a_skill_with_secrets_is_alone_in_its_box(runs: list[tuple[str, bool]]) -> None:
    box = BoxGrants()
    admitted: list[tuple[str, bool]] = []
    for digest, grants in runs:
        try:
            box.admit(digest, grants=grants)
        except GrantConflictError:
            continue
        admitted.append((digest, grants))
    if any(grants for _, grants in admitted):
        assert len({digest for digest, _ in admitted}) == 1
    assert not runs or admitted
