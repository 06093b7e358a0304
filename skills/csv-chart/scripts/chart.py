#!/usr/bin/env python3
"""Draws the numeric columns of inputs/*.csv as one SVG chart and summarises them as JSON."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import dataclass
from pathlib import Path

from plot import svg
from tables import Table, read_table


@dataclass(frozen=True)
class Arguments:
    """What the command line asks for."""

    inputs: Path
    out: Path
    title: str


def arguments() -> tuple[argparse.ArgumentParser, Arguments]:
    """Returns the parser, for its errors, and what was given."""
    parser = argparse.ArgumentParser(description=__doc__)
    out = os.environ.get("OUTPUT_DIR") or "out"  # noqa: TID251  # a skill is told its folder this way
    parser.add_argument("--inputs", type=Path, default=Path("inputs"), help="folder with the CSV files")
    parser.add_argument("--out", type=Path, default=Path(out), help="folder for chart.svg and summary.json")
    parser.add_argument("--title", default="", help="text above the chart")
    given = parser.parse_args()
    return parser, Arguments(given.inputs, given.out, given.title)


def summary(tables: list[Table]) -> dict[str, object]:
    """Returns the figures of every numeric column, and the columns that have none."""
    return {
        "columns": [
            {
                "file": table.name,
                "column": column,
                "count": len(values),
                "min": min(values),
                "max": max(values),
                "mean": sum(values) / len(values),
                "sum": sum(values),
            }
            for table in tables
            for column, values in table.numeric.items()
        ],
        "skipped": [f"{table.name}: {column}" for table in tables for column in table.skipped],
    }


def main() -> None:
    """Reads the tables and writes both files, or says what is wrong with them."""
    parser, given = arguments()
    try:
        tables = [read_table(path) for path in sorted(given.inputs.glob("*.csv"))]
    except (OSError, ValueError) as error:
        parser.error(str(error))
    series = {f"{t.name}: {column}": values for t in tables for column, values in t.numeric.items()}
    if not series:
        parser.error(f"no numeric column in {given.inputs}/*.csv")
    longest = max(tables, key=lambda table: len(table.labels))
    try:
        given.out.mkdir(parents=True, exist_ok=True)
        (given.out / "chart.svg").write_text(svg(series, longest.labels, given.title), encoding="utf-8")
        text = json.dumps(summary(tables), indent=2, ensure_ascii=False) + "\n"
        (given.out / "summary.json").write_text(text, encoding="utf-8")
    except OSError as error:
        parser.error(f"cannot write: {error}")
    print(
        f"{len(series)} columns of {len(tables)} files: {given.out / 'chart.svg'}, {given.out / 'summary.json'}"
    )


if __name__ == "__main__":
    main()
