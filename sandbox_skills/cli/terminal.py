"""What people see: results on stdout, progress and complaints on stderr, nothing that a skill could forge."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

    from sandbox_skills.errors import SandboxSkillsError

PIPE_WIDTH = 4096
"""Columns of a table in a pipe: whoever reads it there wants whole values."""


def _console(*, stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    return console


out = _console(stderr=False)
err = _console(stderr=True)

_VISIBLE = {
    code: f"\\x{code:02x}" for code in (*range(0x20), 0x7F, *range(0x80, 0xA0)) if chr(code) not in "\n\t"
}


def print_json(value: Any) -> None:  # noqa: ANN401  # whatever json can write
    """Writes one JSON value on stdout; non-ASCII stays readable."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")
    sys.stdout.flush()


def harmless(text: str) -> str:
    """Returns text from a stranger with its control characters made visible, line ends and tabs left."""
    return text.translate(_VISIBLE)


def complain(error: SandboxSkillsError, *, as_json: bool) -> None:
    """Tells an error and its next step: as text on stderr, with `as_json` on stdout."""
    if as_json:
        print_json({"error": {"code": error.code, "message": error.message, "hint": error.hint}})
        return
    err.print(Text.assemble(("error: ", "bold red"), harmless(error.message)))
    if error.hint:
        err.print(Text.assemble(("hint: ", "bold"), harmless(error.hint)))


@contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """Shows a spinner on a terminal while the block lasts, nothing elsewhere; yields a setter of its text."""
    if not err.is_terminal:
        yield lambda _text: None
        return
    with err.status(what) as status:
        yield lambda text: status.update(Text(harmless(text)[:200]))


class LiveOutput:
    """Passes a run's output through as it comes.

    A terminal gets text without control characters, so that a skill cannot move its cursor, set its title or
    write to its clipboard; a pipe gets the bytes.
    """

    def __init__(self, before_first: Callable[[], None]) -> None:
        self._before_first: Callable[[], None] | None = before_first

    def __call__(self, stream: Literal["stdout", "stderr"], data: bytes, /) -> None:
        if self._before_first is not None:
            self._before_first()
            self._before_first = None
        text_stream = sys.stdout if stream == "stdout" else sys.stderr
        target: BinaryIO = text_stream.buffer
        if text_stream.isatty():
            data = harmless(data.decode(errors="backslashreplace")).encode(errors="backslashreplace")
        target.write(data)
        target.flush()
