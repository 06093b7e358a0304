#!/usr/bin/env python3
"""Prints the usual weather of a city: averages of many years, no forecast."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TypedDict

CLIMATE = Path(__file__).parents[1] / "assets" / "climate.json"
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class Year(TypedDict):
    """Twelve values each: mean highs and lows in degrees Celsius, rain in millimetres."""

    high: list[int]
    low: list[int]
    rain: list[int]


def climate() -> dict[str, Year]:
    """Returns what is known of each city."""
    found: dict[str, Year] = json.loads(CLIMATE.read_text(encoding="utf-8"))
    return found


def degrees(celsius: int, unit: str) -> str:
    """Returns a temperature in the unit, as it is printed."""
    value = celsius if unit == "C" else round(celsius * 9 / 5 + 32)
    return f"{value} °{unit}"


def line(year: Year, month: int, unit: str) -> str:
    """Returns one month, counted from 1, as it is printed."""
    low, high = (degrees(year[name][month - 1], unit) for name in ("low", "high"))
    return f"{MONTHS[month - 1]}: {low} to {high}, {year['rain'][month - 1]} mm of rain"


def main() -> None:
    """Reads the arguments and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("city", metavar="CITY", nargs="?", help="one of those that --list prints")
    parser.add_argument("--month", metavar="M", type=int, choices=range(1, 13), help="one month, 1 to 12")
    parser.add_argument("--unit", choices=("C", "F"), default="C", help="degrees Celsius or Fahrenheit")
    parser.add_argument("--list", action="store_true", help="print the cities")
    options = parser.parse_args()
    cities = climate()
    if options.list:
        print("\n".join(cities))
        return
    name = next((name for name in cities if name.casefold() == (options.city or "").casefold()), None)
    if name is None:
        parser.error(f"no city {options.city!r}; there are {', '.join(cities)}")
    for month in [options.month] if options.month else range(1, 13):
        print(f"{name}, {line(cities[name], month, options.unit)}")


if __name__ == "__main__":
    main()
