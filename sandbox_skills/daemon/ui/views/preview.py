"""What a browser may be shown of a file that a stranger made: a closed set of kinds, all else is a download. Pure."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING

from sandbox_skills.daemon.ui.views.log_text import page_line, page_text
from sandbox_skills.spec import KIB, MIB

if TYPE_CHECKING:
    from collections.abc import Mapping

PREVIEW_BYTES = 256 * KIB
"""Of a text that a page shows: some 4,000 lines, which a phone still scrolls."""

MAX_PICTURE_BYTES = 16 * MIB
"""Of an image that a page loads unasked."""

MAX_ROWS = 200
MAX_COLUMNS = 40
MAX_CELL = 200
"""Of a table that is shown: enough to see what it is; the file itself can be downloaded."""


class Preview(StrEnum):
    """How a file is shown."""

    TEXT = "text"
    TABLE = "table"
    PICTURE = "picture"
    FRAME = "frame"
    NONE = "none"


_KINDS: Mapping[str, Preview] = MappingProxyType(
    {
        "image/png": Preview.PICTURE,
        "image/jpeg": Preview.PICTURE,
        "image/gif": Preview.PICTURE,
        "image/webp": Preview.PICTURE,
        "image/avif": Preview.PICTURE,
        "image/svg+xml": Preview.FRAME,
        "text/html": Preview.FRAME,
        "text/csv": Preview.TABLE,
        "text/tab-separated-values": Preview.TABLE,
        "application/json": Preview.TEXT,
        "application/jsonl": Preview.TEXT,
        "application/x-ndjson": Preview.TEXT,
        "application/xml": Preview.TEXT,
        "application/yaml": Preview.TEXT,
        "application/toml": Preview.TEXT,
        "application/sql": Preview.TEXT,
    }
)

INLINE_TYPES = frozenset(kind for kind, how in _KINDS.items() if how in {Preview.PICTURE, Preview.FRAME})
"""Types that are ever sent to be shown as what they are: the rest is plain text or a download."""


@dataclass(frozen=True, slots=True)
class Table:
    """The beginning of a table; `cut` is whether there is more of it."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    cut: bool


def preview_of(mime_type: str, size: int) -> Preview:
    """Returns how a file of this type and size is shown."""
    bare = mime_type.partition(";")[0].strip().lower()
    kind = _KINDS.get(bare, Preview.TEXT if bare.startswith("text/") else Preview.NONE)
    too_large = kind in {Preview.PICTURE, Preview.FRAME} and size > MAX_PICTURE_BYTES
    return Preview.NONE if too_large else kind


def table_of(text: str, *, tabs: bool = False) -> Table | None:
    """Returns the beginning of a CSV, None where it cannot be read as one or has nothing in it."""
    reader = csv.reader(text.splitlines(), delimiter="\t" if tabs else _delimiter(text))
    try:
        rows = list(islice(reader, MAX_ROWS + 2))
    except csv.Error:
        return None
    if not rows or not any(rows):
        return None
    shown = rows[: MAX_ROWS + 1]
    width = min(max(map(len, shown)), MAX_COLUMNS)
    cut = len(rows) > len(shown) or any(len(row) > width for row in shown)
    return Table(_cells(shown[0], width), tuple(_cells(row, width) for row in shown[1:]), cut)


def _delimiter(text: str) -> str:
    """Returns what parts the first line most often: the sniffer of the standard library takes letters too."""
    first = text.partition("\n")[0]
    return max(",;\t|", key=first.count)


def _cells(row: list[str], width: int) -> tuple[str, ...]:
    cells = [page_line(cell[:MAX_CELL]) + ("…" if len(cell) > MAX_CELL else "") for cell in row[:width]]
    return (*cells, *[""] * (width - len(cells)))


def text_of(data: bytes) -> str:
    """Returns bytes as text to show; what is not UTF-8 is shown as what it is not."""
    return page_text(data.decode(errors="replace"))
