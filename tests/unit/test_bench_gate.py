"""`make bench-check`: what fails a change, and what does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench import recorded
from tests.bench.recorded import RECORDED, regressed, standard
from tests.bench.report import Bound, Row, missed

BENCH = Path(recorded.__file__).parent


def rows(text: str, ratio: float, limit: float, *, at_most: bool) -> list[Row]:
    return [Row("what", (1.0,), bounds=(Bound(text, ratio, limit, at_most=at_most),))]


@pytest.mark.parametrize(
    ("ratio", "limit", "at_most", "is_worse"),
    [
        (1.2, 1.0, True, False),
        (1.26, 1.0, True, True),
        (0.81, 1.0, False, False),
        (0.79, 1.0, False, True),
    ],
)
def test_a_ratio_may_be_a_quarter_worse_than_its_bound(
    ratio: float, limit: float, *, at_most: bool, is_worse: bool
) -> None:
    found = rows("one that holds", ratio, limit, at_most=at_most)

    assert bool(regressed(found)) is is_worse
    assert bool(missed(found)) is (ratio > limit if at_most else ratio < limit)


@pytest.mark.parametrize("text", RECORDED)
def test_where_a_bound_is_missed_the_gate_starts_from_what_was_reached(text: str) -> None:
    reached = RECORDED[text]
    half, twice = reached / 2, reached * 2
    below, above = Bound(text, reached, half, at_most=True), Bound(text, reached, twice, at_most=False)

    assert standard(below) == standard(above) == reached
    assert missed([Row("what", (1.0,), bounds=(below, above))]) == [below, above]
    assert not regressed([Row("what", (1.0,), bounds=(below, above))])
    assert regressed(rows(text, reached * 1.3, half, at_most=True))
    assert regressed(rows(text, reached / 1.3, twice, at_most=False))


def test_what_was_reached_never_makes_a_bound_stricter() -> None:
    text = next(iter(RECORDED))

    assert standard(Bound(text, 1.0, 1e9, at_most=True)) == 1e9
    assert standard(Bound(text, 1.0, 0.0, at_most=False)) == 0


def test_what_is_recorded_is_still_measured() -> None:
    sources = "".join(
        path.read_text(encoding="utf-8") for path in BENCH.glob("*.py") if path.stem != "recorded"
    )

    assert [text for text in RECORDED if f'"{text}"' not in sources] == []
