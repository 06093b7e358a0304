"""The first step of the program `sandbox-skills`, before what it imports."""

from __future__ import annotations

import gc

NEW_OBJECTS = 200_000
"""Between two collections of garbage; Python's own 700 makes a third of the time that imports take."""


def main() -> None:
    """Runs the program and exits with its code."""
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])
    from sandbox_skills.cli.main import main as run  # noqa: PLC0415  # these imports are what it is set for

    run()
