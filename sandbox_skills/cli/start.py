"""The first step of the program `sandbox-skills`, before what it imports; and the last, before its work begins."""

from __future__ import annotations

import gc
import os

NEW_OBJECTS = 200_000
"""Between two collections of garbage; Python's own 700 makes a third of the time that imports take."""

USUAL = gc.get_threshold()


def main() -> None:
    """Runs the program and exits with its code."""
    # pydantic would look through every package that is installed, and import what says that it is a plugin of it.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # noqa: TID251  # its own switch, of this process
    gc.set_threshold(NEW_OBJECTS, *USUAL[1:])
    from sandbox_skills.cli.main import main as run  # noqa: PLC0415  # these imports are what it is set for

    run()


def imported() -> None:
    """Says that what a command imports is there: from now on garbage is collected as usual.

    Otherwise `serve` and others that stay would keep it for hours, half a megabyte for each run (measured). What is
    there by now stays, and is not looked at again.
    """
    if gc.get_threshold()[0] == NEW_OBJECTS:
        gc.freeze()
        gc.set_threshold(*USUAL)
