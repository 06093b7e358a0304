"""What came of the attacks, by family and engine: printed at the end of a run, and kept in the README.

Nothing of it is written by hand. A family is a file of tests; `make redteam` writes the table.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.security.engines import TITLES

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

HERE = Path(__file__).parent

BEGIN, END = "<!-- redteam -->\n", "<!-- /redteam -->"

NOT_A_FAMILY = {"gvisor"}
"""A file whose tests are of the other files' families."""

Refused = Callable[[str], None]
"""Tells that an engine does not promise a guarantee, and that a box which needs it was refused."""


@dataclass
class Cell:
    """What one engine did against one family."""

    held: int = 0
    failed: int = 0
    refused: set[str] = field(default_factory=set[str])

    def __str__(self) -> str:
        if self.failed:
            return f"**{self.failed} failed**"
        without = (
            f", without {', '.join(f'`{name}`' for name in sorted(self.refused))}" if self.refused else ""
        )
        return f"held{without}" if self.held else "not tried"


class Matrix:
    """Collects the reports of a run."""

    def __init__(self) -> None:
        self._cells: defaultdict[tuple[str, str], Cell] = defaultdict(Cell)

    def add(self, report: pytest.TestReport) -> None:
        """Takes one report of a test whose family and engine were told."""
        told: dict[str, str] = {str(name): str(value) for name, value in report.user_properties}
        if "family" not in told:
            return
        engines = (told["engine"],) if "engine" in told else ("docker",)
        for engine in engines:
            cell = self._cells[told["family"], engine]
            cell.failed += report.failed
            cell.held += report.passed and report.when == "call"
            cell.refused |= {str(value) for name, value in report.user_properties if name == "refused"}

    def __bool__(self) -> bool:
        return bool(self._cells)

    def engines(self) -> list[str]:
        """Returns the engines that were tried."""
        tried = {engine for _, engine in self._cells}
        return [name for name in TITLES if name in tried]

    def counts(self) -> Counter[str]:
        """Returns how many attacks and honest twins each engine held."""
        found: Counter[str] = Counter()
        for (_, engine), cell in self._cells.items():
            found[engine] += cell.held
        return found

    def complete(self) -> bool:
        """Whether every family was tried, and every engine."""
        return {name for name, _ in self._cells} == families().keys() and self.engines() == list(TITLES)

    def table(self) -> str:
        """Returns the table as Markdown."""
        engines = self.engines()
        lines = [
            f"| attacks | {' | '.join(TITLES[name] for name in engines)} |",
            f"|---|{'---|' * len(engines)}",
        ]
        for name, title in families().items():
            cells = [str(self._cells.get((name, engine), Cell())) for engine in engines]
            lines.append(f"| [`{name}`](tests/security/test_{name}.py): {title} | {' | '.join(cells)} |")
        return "\n".join(lines) + "\n"


def families() -> dict[str, str]:
    """Returns every family with the sentence that its file begins with."""
    found: dict[str, str] = {}
    for path in sorted(HERE.glob("test_*.py")):
        name = path.stem.removeprefix("test_")
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        if name not in NOT_A_FAMILY:
            found[name] = re.split(r"\.(?:\s|$)", docstring, maxsplit=1)[0]
    return found


def rows(text: str) -> list[str]:
    """Returns the names of the families in a table that is kept between two marks of a text."""
    return re.findall(r"^\| \[`(\w+)`\]", kept(text), re.MULTILINE)


def kept(text: str) -> str:
    """Returns the table that a text has between the two marks."""
    return text.partition(BEGIN)[2].partition(END)[0]


def write(path: Path, table: str) -> None:
    """Puts a table between the two marks of a file."""
    text = path.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    path.write_text(f"{before}{BEGIN}{table}{END}{rest.partition(END)[2]}", encoding="utf-8")


def summary(matrix: Matrix, missing: Iterable[str]) -> list[str]:
    """Returns what is printed at the end."""
    counts = ", ".join(f"{TITLES[name]} {count}" for name, count in sorted(matrix.counts().items()))
    left = [f"not tried here: {name}" for name in missing]
    return [*matrix.table().splitlines(), f"held: {counts}", *left]
