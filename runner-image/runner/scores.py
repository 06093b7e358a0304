"""Whom the kernel takes first where memory runs out."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .lean import suppress

if TYPE_CHECKING:
    from types import TracebackType


OOM_SCORE = 1000
"""The highest oom_score_adj: the kernel takes a program of the skill before it takes the runner."""

CONTAINER_SCORE = 500
"""What engines give the container: the lowest that a runner can go back to where the host sets that floor."""


class OwnScore:
    """The runner's own oom_score_adj: the lowest it may have, and a program's for the moment in which it is started.

    A program inherits it. Raised from outside after its start, one that forks at once would leave its children the
    runner's, and the kernel would take the program before a child that hoards (seen in six of eight tries).
    """

    def __init__(self) -> None:
        self._file: int | None = None

    def open(self) -> None:
        """Takes the lowest score that the host allows; before the runner is undumpable, when the file is its own."""
        with suppress(OSError):
            self._file = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
        self._set(0)

    def __enter__(self) -> None:
        """Has the score of a program while the block lasts."""
        self._set(OOM_SCORE)

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._set(0)

    def _set(self, score: int) -> None:
        # Where 0 is refused, the score of the container stays, which is the lowest then for its programs too.
        if self._file is None:
            return
        try:
            os.write(self._file, b"%d" % score)
        except OSError:
            with suppress(OSError):
                os.write(self._file, b"%d" % CONTAINER_SCORE)


OWN_SCORE = OwnScore()
