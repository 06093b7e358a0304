"""What the start of the program costs where it only tells something: `python -m tests.bench.program`."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from tests.bench.report import Bound, Row, as_markdown, missed
from tests.bench.scenarios import timed

ROUNDS = 30

MOST = 250
"""Milliseconds in which `--help` and `list` must be there: longer than that people take for waiting."""

BOUNDS = {"program: sandbox-skills --help": "--help in ms", "program: sandbox-skills list": "list in ms"}

PROGRAM = str(Path(sys.executable).with_name("sandbox-skills"))
SKILLS = Path(__file__).parents[2] / "skills"


def rows() -> list[Row]:
    """Starts an interpreter, `--help`, and `list` over the samples, in turns."""
    commands = {
        "host: python3 -c pass": [sys.executable, "-c", "pass"],
        "program: sandbox-skills --help": [PROGRAM, "--help"],
        "program: sandbox-skills list": [PROGRAM, "list", "--skills", str(SKILLS)],
    }
    samples: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, argv in commands.items():
            samples[name].append(timed(lambda: _started(argv)))  # noqa: B023  called at once
    return [_bounded(Row(name, tuple(taken))) for name, taken in samples.items()]


def _started(argv: list[str]) -> None:
    subprocess.run(argv, stdout=subprocess.DEVNULL, check=True)


def _bounded(row: Row) -> Row:
    text = BOUNDS.get(row.name)
    return replace(row, bounds=(Bound(text, row.p50, MOST, at_most=True),)) if text else row


if __name__ == "__main__":
    measured = rows()
    sys.stdout.write(as_markdown(measured, {}))
    sys.exit(bool(missed(measured)))
