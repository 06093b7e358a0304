"""Rules for files that were collected: which count, which can be saved, which one is the answer. Pure."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Protocol, TypeVar

from sandbox_skills.spec import KIB, Exited
from sandbox_skills.workspace.paths import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sandbox_skills.spec import Ending

MAX_PRIMARY = 32 * KIB
"""Bytes of a text that may be the primary output: a longer one is no answer, but a file to open."""

_NAMES_IN_WARNING = 10
"""A hundred files may be left out, and a model reads every name."""


class OutputFile(Protocol):
    """What the rules below look at: a file as the box has it, and whether less of it was taken."""

    @property
    def path(self) -> PurePosixPath: ...

    @property
    def size(self) -> int: ...

    @property
    def truncated(self) -> bool: ...


F = TypeVar("F", bound=OutputFile)


def without_empty(files: Sequence[F], ending: Ending) -> tuple[tuple[F, ...], tuple[str, ...]]:
    """Returns the files that count, and warnings of those that do not.

    An empty file of a run that failed is what a shell opened for a command that never wrote to it.
    """
    if ending == Exited(0):
        return tuple(files), ()
    kept = tuple(file for file in files if file.size)
    dropped = [shown(str(file.path)) for file in files if not file.size]
    warning = f"left out, because the run failed and they are empty: {_listed(dropped)}"
    return kept, (warning,) if dropped else ()


def without_truncated(files: Sequence[F]) -> tuple[tuple[F, ...], tuple[str, ...]]:
    """Returns the files that can be saved, and warnings of those that cannot: half a file is no artifact."""
    whole = tuple(file for file in files if not file.truncated)
    cut = [f"{shown(str(file.path))} ({file.size} bytes)" for file in files if file.truncated]
    return whole, (f"not saved, because they are larger than the limit: {_listed(cut)}",) if cut else ()


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMES_IN_WARNING
    return ", ".join(names[:_NAMES_IN_WARNING]) + (f" and {more} more" if more > 0 else "")


def primary_output(texts: Iterable[tuple[PurePosixPath, str | None]]) -> PurePosixPath | None:
    """Returns the path of the file that is the run's answer: of short texts that are not blank, the first by name.

    `texts` are paths with their text, None where a file is no text.
    """
    fit = (str(path) for path, text in texts if text is not None and _may_be_primary(text))
    first = min(fit, default=None)
    return None if first is None else PurePosixPath(first)


def _may_be_primary(text: str) -> bool:
    return bool(text.strip()) and len(text.encode()) <= MAX_PRIMARY
