"""What has been reached where a bound is still missed: the gate for changes starts from there.

A bound stays what must be reached; a ratio that never held would otherwise fail the gate whatever a change does to it.
Whoever comes nearer writes down the new ratio here, and whoever gets there takes the line away.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.bench.report import Bound, Row

RECORDED: Mapping[str, float] = MappingProxyType(
    {
        "tool ÷ bare": 1.37,
    }
)
"""By the text of the bound. Medians of the day on which README's table was made."""

TOLERANCE = 1.25
"""How much worse a ratio may be for the gate: on one machine they differ by a tenth from day to day."""


def standard(bound: Bound) -> float:
    """Returns what the gate compares with: the bound, or what was reached where that is still worse."""
    reached = RECORDED.get(bound.text, bound.limit)
    return max(bound.limit, reached) if bound.at_most else min(bound.limit, reached)


def regressed(rows: Sequence[Row]) -> list[Bound]:
    """Returns the bounds whose ratio is worse than its standard by more than the tolerance."""
    return [bound for row in rows for bound in row.bounds if not _tolerable(bound)]


def _tolerable(bound: Bound) -> bool:
    if bound.at_most:
        return bound.ratio <= standard(bound) * TOLERANCE
    return bound.ratio >= standard(bound) / TOLERANCE
