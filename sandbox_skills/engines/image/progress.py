"""What a long step says while it works, and the last of it when it fails."""

from __future__ import annotations

import re
import subprocess
from collections import deque
from typing import TYPE_CHECKING

from sandbox_skills.errors import ImageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

TAIL_LINES = 20
"""A screenful: what a tool says last is nearly always why it failed."""

CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")
"""Colours and cursor movements: a tool's output goes to logs too."""


class Tail:
    """Passes lines on and keeps the last of them."""

    def __init__(self, progress: Callable[[str], None]) -> None:
        self._progress = progress
        self._last: deque[str] = deque(maxlen=TAIL_LINES)

    def feed(self, text: str) -> None:
        """Takes any text; passes on its lines that are not blank, without control characters."""
        for raw in re.split(r"[\r\n]+", text):
            line = CONTROL.sub("", raw).rstrip()
            if line:
                self._last.append(line)
                self._progress(line)

    def failure(self, what: str, *, hint: str = "") -> ImageError:
        """Returns the error for a step that failed, with the last lines it said."""
        return ImageError("\n".join([what, *self._last]), hint=hint)


def run_tool(argv: Sequence[str], progress: Callable[[str], None], *, cwd: Path | None = None) -> None:
    """Runs a program of the host and passes on what it says; raises ImageError with its last lines."""
    tail = Tail(progress)
    with subprocess.Popen(
        argv,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            tail.feed(line)
    if process.returncode:
        raise tail.failure(f"{argv[0]} failed with exit code {process.returncode}")
