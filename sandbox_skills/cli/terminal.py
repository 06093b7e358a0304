"""What people see: results on stdout, progress and complaints on stderr, nothing that a skill could forge."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from sandbox_skills.cli.streams import OutputClosedError
from sandbox_skills.cli.text import harmless, harmless_json, harmless_line

if TYPE_CHECKING:
    from collections.abc import Generator

    from rich.status import Status

    from sandbox_skills.cli.exits import Failure

MAX_PROGRESS = 200
"""Characters beside a spinner: a line of any terminal, and a redraw costs the more the longer it is."""


NOTES = {"fake": "nothing is run", "local": "nothing is isolated"}
"""What is said of an engine that is no sandbox."""


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise OutputClosedError


def _console(*, stderr: bool) -> Console:
    # Text is shown as it is: nothing in it is markup, an emoji's name or worth a colour, and lines stay whole.
    return _Console(stderr=stderr, markup=False, emoji=False, highlight=False, soft_wrap=True)


out = _console(stderr=False)
err = _console(stderr=True)


def print_json(value: Any) -> None:  # noqa: ANN401  # whatever json can write
    """Writes one JSON value on stdout; non-ASCII stays readable, and what a terminal would obey is escaped."""
    _write_json(json.dumps(value, ensure_ascii=False, indent=2))


def print_json_line(value: Any) -> None:  # noqa: ANN401  # as above
    """Writes the same on one line, for whoever reads a value from each."""
    _write_json(json.dumps(value, ensure_ascii=False))


def _write_json(text: str) -> None:
    try:
        sys.stdout.write(harmless_json(text) + "\n")
        sys.stdout.flush()
    except BrokenPipeError as error:
        raise OutputClosedError from error


def print_failure(failure: Failure, *, as_json: bool) -> None:
    """Tells an error and its next step: as text on stderr, with `as_json` as one line of JSON on stdout.

    It may come after lines that are results.
    """
    if as_json:
        print_json_line({"error": {"code": failure.code, "message": failure.message, "hint": failure.hint}})
        return
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
    with err.status(what) as status:
        yield Progress(status)
