"""The sample skill weather, run as it is on the host."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.skills.conftest import Script


def test_a_month_is_told_in_either_unit(script: Script) -> None:
    assert script("weather", "weather.py", "LIMA", "--month", "8").stdout == (
        "Lima, Aug: 15 °C to 19 °C, 2 mm of rain\n"
    )
    told = script("weather", "weather.py", "new york", "--month", "1", "--unit", "F").stdout
    assert told == "New York, Jan: 27 °F to 39 °F, 92 mm of rain\n"


def test_a_year_has_twelve_lines(script: Script) -> None:
    lines = script("weather", "weather.py", "Tokyo").stdout.splitlines()
    assert [line.split()[1] for line in (lines[0], lines[11])] == ["Jan:", "Dec:"]
    assert len(lines) == 12


def test_every_city_that_is_listed_is_complete(script: Script, skills: Path) -> None:
    climate = json.loads((skills / "weather/assets/climate.json").read_text())
    assert script("weather", "weather.py", "--list").stdout.splitlines() == list(climate)
    for year in climate.values():
        assert {name: len(values) for name, values in year.items()} == {"high": 12, "low": 12, "rain": 12}
        assert all(low < high for low, high in zip(year["low"], year["high"], strict=True))


@pytest.mark.parametrize("arguments", [(), ("Atlantis",), ("Lima", "--month", "13"), ("Lima", "--unit", "K")])
def test_bad_input_is_said_on_stderr_with_exit_2(script: Script, arguments: tuple[str, ...]) -> None:
    done = script("weather", "weather.py", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "error:" in done.stderr
