"""Output of strangers made fit for a page: what only a terminal can obey is taken out or made visible. Pure.

Markup needs nothing here: templates escape it, and the script only ever sets text.
"""

from __future__ import annotations

import re

# CSI and OSC sequences, whole; one cut in the middle by the end of a piece loses its first character below.
_SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]{0,32}[ -/]{0,4}[@-~]|\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)|[()][0-9A-B]|[=>78])"
)

_CONTROLS = (*(code for code in range(0x20) if chr(code) not in "\n\t"), 0x7F, *range(0x80, 0xA0))
_REORDERING = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
"""Characters that make other text appear than there is: line separators and directions."""

_VISIBLE = dict.fromkeys((*_CONTROLS, *_REORDERING), "\N{REPLACEMENT CHARACTER}")


def page_text(text: str) -> str:
    """Returns text of a program without colours and cursor moves; a progress bar's lines follow each other."""
    plain = _SEQUENCE.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return plain.translate(_VISIBLE)


def page_line(text: str) -> str:
    """Returns a name or a message of a stranger as one line."""
    return page_text(text).replace("\n", " ").replace("\t", " ")
