"""The rows that are times, as bars on a logarithmic scale. Pure."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.bench.report import Row

WIDTH, LABELS, LINE = 900, 380, 22
"""In pixels: the picture, the names on its left, one row."""

BARS = WIDTH - LABELS - 90


def as_svg(rows: Sequence[Row]) -> str:
    """Returns a picture of the medians in milliseconds; the lighter part of a bar reaches to the 95th percentile."""
    timed = [row for row in rows if row.unit == "ms" and not row.missing]
    low = math.floor(math.log10(min((row.p50 for row in timed), default=1)))
    high = math.ceil(math.log10(max((row.p95 for row in timed), default=10)))
    height = LINE * (len(timed) + 1)
    bars = "".join(_bar(row, index, low, high) for index, row in enumerate(timed))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="12">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{bars}</svg>\n'
    )


def _bar(row: Row, index: int, low: int, high: int) -> str:
    top = LINE * index + LINE // 2
    median, tail = (
        (math.log10(value) - low) / max(1, high - low) * BARS for value in (row.p50, max(row.p50, row.p95))
    )
    return (
        f'<text x="{LABELS - 8}" y="{top + 12}" text-anchor="end">{escape(row.name)}</text>\n'
        f'<rect x="{LABELS}" y="{top}" width="{tail:.1f}" height="15" fill="#b9cbe8"/>\n'
        f'<rect x="{LABELS}" y="{top}" width="{median:.1f}" height="15" fill="#3f6db5"/>\n'
        f'<text x="{LABELS + tail + 6:.1f}" y="{top + 12}">{row.p50:.2f} ms</text>\n'
    )
