"""The bench's table, its JSON and its picture: rows that could not be measured say so, and spoil nothing."""

from __future__ import annotations

import json

from tests.bench import docker_cli
from tests.bench.chart import as_svg
from tests.bench.report import Bound, Row, as_markdown, missed

TAKEN = Row("taken", (1.0, 3.0, 2.0), bounds=(Bound("ratio", 2.0, 1.0, at_most=True),))
MISSING = docker_cli.row("by a program", [None, None])


def test_a_row_is_told_with_its_medians_and_bounds() -> None:
    assert "| taken | 2.00 ms | 3.00 ms | 3 | MISSED: ratio = 2.00 (≤ 1) |" in as_markdown([TAKEN], {})
    assert TAKEN.as_dict()["p50"] == 2.0


def test_a_row_without_its_program_says_what_is_missing() -> None:
    assert f"| by a program | - | - | 0 | not measured: {docker_cli.MISSING} |" in as_markdown([MISSING], {})
    assert json.dumps(MISSING.as_dict()) == json.dumps(
        {"name": "by a program", "n": 0, "missing": docker_cli.MISSING}
    )


def test_a_row_without_samples_is_in_no_picture_and_misses_nothing() -> None:
    picture = as_svg([TAKEN, MISSING])
    assert "taken" in picture
    assert "by a program" not in picture
    assert missed([TAKEN, MISSING]) == list(TAKEN.bounds)


def test_samples_that_were_taken_are_all_counted() -> None:
    assert docker_cli.row("by a program", [1.0, 2.0]).samples == (1.0, 2.0)
