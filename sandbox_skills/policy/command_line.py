"""Command lines that can be judged: plain words, quotes, `|`, `&&`, `||` and `;`. Pure.

What is read here, bash reads in the same way, whatever its variables, files and locale are; everything else is
refused, since nobody can tell before what it comes to.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sandbox_skills.policy.programs import RESERVED
from sandbox_skills.spec import KIB

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_BYTES = 16 * KIB
"""Of a command line: the longest that anybody writes by hand is far shorter."""

MAX_SEGMENTS = 32
"""Programs in one command line."""

Segment = tuple[str, ...]
"""One program and its arguments."""

_TOKEN = re.compile(
    r"""
      (?P<blank>    [ \t]+ )
    | (?P<operator> \|\| | && | \|(?!&) | ;(?![;&]) )
    | (?P<plain>    [A-Za-z0-9_./:,+@%=^-]+ )
    | '(?P<single>  [^'\0]* )'
    | "(?P<double>  (?: [^"$`\\\0] | \\[$`"\\] | \\(?=[^$`"\\\n\0]) )* )"
    | \\(?P<escaped> [ -~] )                    # a backslash before a newline joins lines: not here
    """,
    re.VERBOSE,
)

_IN_DOUBLE = re.compile(r"""\\([$`"\\])""")

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")

_FAULTS = (
    ("$", "$ stands for what nobody can judge: write the value, or put the word in single quotes"),
    ("`", "a command within a command cannot be judged"),
    ("<>", "redirections are not allowed: pipe, or let the program write its file"),
    ("*?[]~{}", "patterns and braces are not allowed: name each file, or put the word in quotes"),
    ("()", "subshells and functions are not allowed"),
    ("&", "only && is allowed: nothing runs in the background"),
    ("|;", "this operator is not allowed"),
    ("\n\r", "it has several lines: join them with && or ;"),
    ("#", "comments are not allowed: put the word in quotes"),
    ("!", "negations are not allowed: put the word in quotes"),
    ("'\"", "a quote is not closed, or $, a backquote or a line end stands in double quotes"),
    ("\\", "a backslash stands at the end, or before what cannot be escaped"),
)


class UnclearCommandError(ValueError):
    """A command line that cannot be judged; the text says why, for whoever wrote it."""


def segments_of(text: str) -> tuple[Segment, ...]:
    """Returns the programs of a command line with their arguments, in order; raises UnclearCommandError."""
    if len(text.encode(errors="replace")) > MAX_BYTES:
        raise UnclearCommandError(f"it is longer than {MAX_BYTES // KIB} KiB")
    reader = _Reader()
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise UnclearCommandError(_fault(text[position]))
        reader.take(match)
        position = match.end()
    return reader.segments()


class _Reader:
    """Puts tokens together to words, and words to segments."""

    def __init__(self) -> None:
        self._segments: list[list[str]] = [[]]
        self._word: str | None = None

    def take(self, match: re.Match[str]) -> None:
        kind, text = str(match.lastgroup), str(match[str(match.lastgroup)])
        match kind:
            case "blank":
                self._end_word()
            case "operator":
                self._end_word()
                self._segments.append([])
            case "double":
                self._word = (self._word or "") + _IN_DOUBLE.sub(r"\1", text)
            case _:
                self._word = (self._word or "") + text

    def segments(self) -> tuple[Segment, ...]:
        self._end_word()
        if len(self._segments) > MAX_SEGMENTS:
            raise UnclearCommandError(f"it has more than {MAX_SEGMENTS} parts")
        for words in self._segments:
            _check_program(words)
        return tuple(tuple(words) for words in self._segments)

    def _end_word(self) -> None:
        if self._word is not None:
            self._segments[-1].append(self._word)
            self._word = None


def _check_program(words: Sequence[str]) -> None:
    if not words or not words[0]:
        raise UnclearCommandError("a part of it names no program")
    program = words[0]
    if program in RESERVED:
        raise UnclearCommandError(f"{program} is no program, and control flow cannot be judged")
    if _ASSIGNMENT.match(program):
        raise UnclearCommandError("variables cannot be set: give them as the environment of the call")
    if program.startswith("%"):
        raise UnclearCommandError("jobs are not allowed")


def _fault(character: str) -> str:
    for characters, reason in _FAULTS:
        if character in characters:
            return reason
    if character == "\0":
        return "it contains a NUL"
    return "characters beyond ASCII must stand in quotes"
