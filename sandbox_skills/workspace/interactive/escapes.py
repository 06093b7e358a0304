"""What a terminal would show of a text, without what steers it. Pure."""

from __future__ import annotations

import re

TOKEN = re.compile(
    r"""
      (?P<erase> \x1b \[ [012]? K )                                 # in a line: what progress bars are made of
    | (?P<key> [\r\b] )
    | (?P<text> [^\x00-\x08\x0a-\x1f\x7f-\x9f]++ )
    | \x1b \[ [0-?]*+ [ -/]*+ [@-~]                                 # CSI: colours, cursor, erasing
    | \x1b [\]PX^_] [^\x07\x1b]*+ (?: \x07 | \x1b \\ | $ )           # OSC, DCS and such: titles, links
    | \x1b [ -/]*+ [0-~]                                            # two characters and more: character sets
    | .                                                             # other control characters, and what was cut off
    """,
    re.VERBOSE | re.DOTALL,
)

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""What makes a line worth a closer look."""


MAX_COSTLY = 100
"""Of the erasures in one line that cost its length each: nobody needs more, and a hostile line could have thousands."""


def plain(text: str) -> str:
    """Returns the text with every line as it looks in the end: overwritten, erased, without control characters.

    Moves of the cursor to elsewhere are left out: a full-screen program has no lines.
    """
    if not CONTROL.search(text):
        return text
    return "\n".join(map(_shown, text.split("\n")))


def _shown(line: str) -> str:
    cells: list[str] = []
    column = costly = 0
    for token in TOKEN.finditer(line):
        match token.lastgroup:
            case "erase":
                part = token[0][2:-1]
                costly += column > 0 and part in {"1", "2"}
                if costly <= MAX_COSTLY:
                    _erase(cells, column, part)
            case "key":
                column = 0 if token[0] == "\r" else max(column - 1, 0)
            case "text":
                cells.extend(" " * (column - len(cells)))
                cells[column : column + len(token[0])] = token[0]
                column += len(token[0])
            case _:
                pass
    return "".join(cells)


def _erase(cells: list[str], column: int, part: str) -> None:
    """Erases from the cursor on, before it (1), or all of the line (2)."""
    if part == "1":
        cells[:column] = " " * min(column, len(cells))
    else:
        del cells[0 if part == "2" else column :]
