"""Text of strangers made fit for a terminal, and lines put into columns. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_CONTROLS = (*range(0x20), 0x7F, *range(0x80, 0xA0))
_REORDERING = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
"""Characters that make a terminal show other text than there is: line separators and directions."""

_ESCAPES = {
    code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"  # noqa: PLR2004  # as Python spells them
    for code in (*_CONTROLS, *_REORDERING)
}
_ESCAPES_OF_A_TEXT = {code: escape for code, escape in _ESCAPES.items() if chr(code) not in "\n\t"}
# Whoever writes JSON has escaped what is below a space already; what is left of them is its layout.
_ESCAPES_OF_JSON = {code: f"\\u{code:04x}" for code in _ESCAPES if code >= ord(" ")}

_LOG_COMMAND = re.compile(r"##(?=\[|vso\[|teamcity\[)")
_FIRST_COLON = re.compile(r"^(\s*):(?=:)")
"""How a program's output commands a CI server that reads the log: Azure and TeamCity, and GitHub at a line's start."""

GAP = "  "
"""Between columns, as other command-line tools have it."""


def harmless(text: str) -> str:
    """Returns text from a stranger with its control characters made visible, line ends and tabs left."""
    return text.translate(_ESCAPES_OF_A_TEXT)


def harmless_line(text: str) -> str:
    """Returns a name or a message from a stranger as one line, which cannot pass for two."""
    return _LOG_COMMAND.sub(r"\\x23#", _FIRST_COLON.sub(r"\1\\x3a", text.translate(_ESCAPES)))


def harmless_json(text: str) -> str:
    """Returns JSON of the same value, without a character that a terminal would obey."""
    return _LOG_COMMAND.sub(r"\\u0023#", text.translate(_ESCAPES_OF_JSON))


def counted(number: int, one: str, many: str = "") -> str:
    """Returns `1 file`, `2 files`; `many` is a plural that is not made with an s."""
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def aligned(rows: Iterable[Sequence[str]], *, width: int | None = None) -> list[str]:
    """Returns rows as lines with columns below each other; the last column is cut to fit `width`, if given.

    A column is as wide as its widest cell on a terminal, and no line ends in spaces.
    """
    table = [tuple(row) for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(*table, strict=True)]
    lines = (
        GAP.join(
            [*(set_cell_size(cell, size) for cell, size in zip(row[:-1], widths, strict=False)), row[-1]]
        )
        for row in table
    )
    return [_cut(line.rstrip(), width) for line in lines]


def _cut(line: str, width: int | None) -> str:
    if width is None or cell_len(line) <= width:
        return line
    return set_cell_size(line, max(0, width - 1)).rstrip() + "…"
