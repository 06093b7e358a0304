"""What the package does not call, though it is there to be called, and why."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "sandbox_skills"

FORBIDDEN = {"asyncio.wait_for(": "before Python 3.12 it loses a cancel that comes together with a result"}


def test_the_package_calls_nothing_that_is_forbidden() -> None:
    found = [
        f"{file.relative_to(PACKAGE)}: {call} {reason}"
        for file in sorted(PACKAGE.rglob("*.py"))
        for call, reason in FORBIDDEN.items()
        if call in file.read_text(encoding="utf-8")
    ]
    assert found == []
