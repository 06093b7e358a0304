"""Series of numbers as an SVG line chart."""

from __future__ import annotations

from html import escape
from itertools import cycle

WIDTH, HEIGHT = 800, 450
LEFT, RIGHT, TOP, BOTTOM = 80, 20, 50, 60

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Told apart by people with colour blindness too (Okabe and Ito)."""

MOST_LABELS = 12
"""More do not fit side by side under the chart."""

GRID_LINES = 5

FONT = 'font-family="sans-serif" font-size="12"'


def svg(series: dict[str, list[float]], labels: list[str], title: str) -> str:
    """Returns the chart as a document; every series starts at the first label."""
    low = min(0.0, *(min(values) for values in series.values()))
    high = max(0.0, *(max(values) for values in series.values()))
    scale = _Scale(low, high if high > low else low + 1, len(labels))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {FONT}>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{WIDTH / 2}" y="20" text-anchor="middle" font-size="16">{escape(title)}</text>',
        *_grid(scale),
        *_label_row(scale, labels),
    ]
    for row, ((name, values), colour) in enumerate(zip(series.items(), cycle(COLOURS), strict=False)):
        points = " ".join(f"{scale.x(i):.1f},{scale.y(value):.1f}" for i, value in enumerate(values))
        parts += [
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>',
            f'<text x="{LEFT + 10}" y="{TOP + 14 * row}" fill="{colour}">{escape(name)}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])


class _Scale:
    def __init__(self, low: float, high: float, columns: int) -> None:
        self.low, self.high = low, high
        self._step = (WIDTH - LEFT - RIGHT) / max(columns - 1, 1)

    def x(self, index: int) -> float:
        return LEFT + self._step * index

    def y(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def _grid(scale: _Scale) -> list[str]:
    parts = []
    for line in range(GRID_LINES + 1):
        share = line / GRID_LINES
        value = scale.low * (1 - share) + scale.high * share
        y = scale.y(value)
        parts += [
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>',
            f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:.4g}</text>',
        ]
    return parts


def _label_row(scale: _Scale, labels: list[str]) -> list[str]:
    every = -(-len(labels) // MOST_LABELS)
    return [
        f'<text x="{scale.x(index):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{escape(label)}</text>'
        for index, label in enumerate(labels)
        if index % every == 0
    ]
