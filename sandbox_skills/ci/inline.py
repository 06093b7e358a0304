"""Where the inline files of cases lie while they run: below the data directory, gone with the process. Blocking."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from sandbox_skills.directories import make_private, owned_directory, sweep_owned
from sandbox_skills.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

PREFIX = "cases-"


@contextmanager
def inline_directory(data_dir: Path) -> Generator[Path]:
    """Gives an empty directory, and removes what killed processes left; raises OutputError where none can be made."""
    place = _place(data_dir)
    with ExitStack() as owned:
        try:
            make_private(place)
            sweep_owned(place, PREFIX)
            folder = owned.enter_context(owned_directory(place, PREFIX))
        except OSError as error:
            raise OutputError(f"{place}: files of cases cannot lie there: {error.strerror}") from error
        yield folder


def sweep_inline(data_dir: Path) -> list[str]:
    """Removes what killed processes left; returns the names."""
    return sweep_owned(_place(data_dir), PREFIX)


def _place(data_dir: Path) -> Path:
    return data_dir / "tests"
