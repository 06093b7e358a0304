"""Times and sizes as people read them."""

from __future__ import annotations

import pytest

from sandbox_skills.daemon.ui.views.formatting import NOTHING, ago, counted, duration, moment, short_id, size


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (None, NOTHING),
        (-1, "0 ms"),
        (0.4204, "420 ms"),
        (3.21, "3.2 s"),
        (125, "2 min 05 s"),
        (3725, "1 h 02 min"),
    ],
)
def test_durations(seconds: float | None, expected: str) -> None:
    assert duration(seconds) == expected


@pytest.mark.parametrize(
    ("count", "expected"),
    [(None, NOTHING), (0, "0 B"), (1434, "1.4 KiB"), (3 * 1024 * 1024, "3.0 MiB"), (2**31, "2.0 GiB")],
)
def test_sizes(count: int | None, expected: str) -> None:
    assert size(count) == expected


@pytest.mark.parametrize(
    ("at", "expected"),
    [(None, NOTHING), (1000.0, "just now"), (995.0, "5 s ago"), (880.0, "2 min ago"), (4600.0, "in 1 h")],
)
def test_how_long_ago(at: float | None, expected: str) -> None:
    assert ago(at, 1000.0) == expected


def test_exact_times_are_in_utc() -> None:
    assert moment(0.0) == "1970-01-01 00:00:00 UTC"


def test_counts_and_ids() -> None:
    assert (counted(1, "run"), counted(1200, "run")) == ("1 run", "1,200 runs")
    assert short_id("01JABCDEF123456") == "123456"
