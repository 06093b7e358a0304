"""Directories in which skills arrive: each goes with the process that fills it. Blocking."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from sandbox_skills.catalog.lock_file import unwritable
from sandbox_skills.directories import disk_failed, make_private, owned_directory, sweep_owned

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

PREFIX = ".incoming-"
"""Scans for skills skip hidden folders."""


@contextmanager
def incoming_directory(root: Path) -> Generator[Path]:
    """Gives an empty directory below `root`, which is made where it is missing; all in it is removed afterwards.

    What dead processes have left is removed first. Raises SettingsError where `root` cannot be written, EngineError
    where its disk is at fault, then and while the directory is in use.
    """
    with ExitStack() as owned:
        try:
            make_private(root)
            sweep(root)
            path = owned.enter_context(owned_directory(root, PREFIX))
        except OSError as error:
            raise unwritable(root, error) from error
        try:
            yield path
        except OSError as error:
            if disk_failed(error):
                raise unwritable(root, error) from error
            raise


def sweep(root: Path) -> list[str]:
    """Removes the directories whose process is gone; returns their names. Raises OSError."""
    return sweep_owned(root, PREFIX)
