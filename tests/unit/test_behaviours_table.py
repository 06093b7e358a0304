"""The table of behaviours in tests/README.md names tests that are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
README = (TESTS / "README.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"\b([A-Z]) is\s+`([^`]+)`", README))
ROWS = re.findall(r"^\| (\d+) \| (.+) \| (.+) \|$", README, re.MULTILINE)


def names_in(path: Path) -> set[str]:
    """Returns the names of a file's tests, with their class before them."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            found |= {
                f"{node.name}::{one.name}"
                for one in node.body
                if isinstance(one, ast.AsyncFunctionDef | ast.FunctionDef)
            }
        elif isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef):
            found.add(node.name)
    return found


def test_every_test_that_is_named_is_there() -> None:
    named = [name.partition("::") for _, _, shown in ROWS for name in re.findall(r"`([^`]+::[^`]+)`", shown)]
    assert len(named) > 50
    missing = [
        f"{file}::{test}" for file, _, test in named if test not in names_in(TESTS / FILES.get(file, file))
    ]
    assert missing == []


def test_every_behaviour_is_numbered_once_and_shown() -> None:
    numbers = [int(number) for number, _, _ in ROWS]
    assert numbers == sorted(set(numbers))
    assert len(numbers) == 50
    assert all("`" in shown for _, _, shown in ROWS)


def test_four_behaviours_differ_on_purpose() -> None:
    assert [int(number) for number, text, _ in ROWS if "**Differs on purpose**" in text] == [19, 26, 37, 39]


def test_every_behaviour_is_shown_over_docker() -> None:
    over_docker = ("B::", "T::", "W::", "S::", "P::", "integration/")
    assert [
        int(number) for number, _, shown in ROWS if not any(f"`{one}" in shown for one in over_docker)
    ] == []
