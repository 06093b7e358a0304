"""What people see: results on stdout, progress and complaints on stderr, nothing that a skill could forge."""

from __future__ import annotations

import json
import shutil
import sys
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sandbox_skills.cli.streams import write
from sandbox_skills.cli.text import harmless, harmless_json, harmless_line

if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import TextIO

    from rich.console import Console
    from rich.status import Status
    from rich.text import Text

    from sandbox_skills.cli.exits import Failure

MAX_PROGRESS = 200
"""Characters beside a spinner: a line of any terminal, and a redraw costs the more the longer it is."""


NOTES = {"fake": "nothing is run", "local": "nothing is isolated"}
"""What is said of an engine that is no sandbox."""


class _Stream:
    """One of the two streams. rich, which takes 30 ms to import, comes with the first text that has a style."""

    def __init__(self, *, stderr: bool) -> None:
        self._is_stderr = stderr

    @property
    def is_terminal(self) -> bool:
        """Whether people read it as it comes."""
        return self._file().isatty()

    @property
    def width(self) -> int:
        """How many columns a line has there."""
        return shutil.get_terminal_size().columns

    @cached_property
    def console(self) -> Console:
        """The same stream as rich has it."""
        from sandbox_skills.cli.console import console  # noqa: PLC0415  # rich

        return console(stderr=self._is_stderr)

    def print(self, text: str | Text = "") -> None:
        """Writes text and a line end at once, without a change to it; raises OutputClosedError."""
        # What rich has below a spinner it has to move out of the way.
        if isinstance(text, str) and "console" not in vars(self):
            write(text + "\n", self._file())
        else:
            self.console.print(text)

    def _file(self) -> TextIO:
        return sys.stderr if self._is_stderr else sys.stdout


out = _Stream(stderr=False)
err = _Stream(stderr=True)


def print_json(value: Any) -> None:  # noqa: ANN401  # whatever json can write
    """Writes one JSON value on stdout; non-ASCII stays readable, and what a terminal would obey is escaped."""
    _write_json(json.dumps(value, ensure_ascii=False, indent=2))


def print_json_line(value: Any) -> None:  # noqa: ANN401  # as above
    """Writes the same on one line, for whoever reads a value from each."""
    _write_json(json.dumps(value, ensure_ascii=False))


def _write_json(text: str) -> None:
    write(harmless_json(text) + "\n", sys.stdout)


def print_failure(failure: Failure, *, as_json: bool) -> None:
    """Tells an error and its next step: as text on stderr, with `as_json` as one line of JSON on stdout.

    It may come after lines that are results.
    """
    if as_json:
        print_json_line({"error": {"code": failure.code, "message": failure.message, "hint": failure.hint}})
        return
    from rich.text import Text  # noqa: PLC0415  # slow to import, as all of rich

    err.print(Text.assemble(("error: ", "bold red"), harmless(failure.message)))
    if failure.hint:
        err.print(Text.assemble(("hint: ", "bold"), harmless(failure.hint)))


class Progress:
    """A spinner on a terminal, nothing elsewhere."""

    def __init__(self, status: Status | None) -> None:
        self._status = status

    def say(self, text: str) -> None:
        """Shows another text, which may be a stranger's."""
        if self._status is not None:
            from rich.text import Text  # noqa: PLC0415  # likewise, and here by now

            self._status.update(Text(harmless_line(text)[:MAX_PROGRESS]))

    def stop(self) -> None:
        """Takes the spinner away, for output that is to have the terminal to itself."""
        if self._status is not None:
            self._status.stop()


@contextmanager
def working(what: str) -> Generator[Progress]:
    """Shows progress while the block lasts."""
    if not err.is_terminal:
        yield Progress(None)
        return
    with err.console.status(what) as status:
        yield Progress(status)
