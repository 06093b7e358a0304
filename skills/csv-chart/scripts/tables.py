"""CSV files as labels and columns of numbers."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LARGEST = 1e100
"""Sums of smaller numbers stay finite, and JSON has no infinity. Not-a-number is not smaller."""


@dataclass(frozen=True)
class Table:
    """One file: the labels of its first column, and the other columns by their header."""

    name: str
    labels: list[str]
    numeric: dict[str, list[float]]
    skipped: list[str]


def read_table(path: Path) -> Table:
    """Reads one file; raises ValueError, with the line, for one that is no table."""
    header, rows = _rows(path)
    numeric: dict[str, list[float]] = {}
    skipped: list[str] = []
    for index, column in enumerate(header[1:], start=1):
        values = [_number(row[index]) for row in rows]
        if values and None not in values:
            numeric[column] = [value for value in values if value is not None]
        else:
            skipped.append(column)
    return Table(path.name, [row[0] for row in rows], numeric, skipped)


def _rows(path: Path) -> tuple[list[str], list[list[str]]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file)
        try:
            header = next(reader, [])
            rows = []
            for row in reader:
                if row and len(row) != len(header):
                    raise ValueError(
                        f"{path}:{reader.line_num}: {len(row)} cells, the header has {len(header)}"
                    )
                rows += [row] if row else []
        except (csv.Error, UnicodeDecodeError) as error:
            raise ValueError(f"{path}:{reader.line_num}: {error}") from error
    if len(set(header)) != len(header):
        raise ValueError(f"{path}:1: two columns have one name")
    return header, rows


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < LARGEST else None
