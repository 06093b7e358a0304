"""Figures as a table: medians, and the ratios that count."""

from __future__ import annotations

import os
import platform
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_skills.engines.docker_client import connect
from tests.docker_host import connection

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Bound:
    """A ratio that must hold: this row over another, or a number of its own, at most or at least."""

    text: str
    ratio: float
    limit: float
    at_most: bool

    @property
    def held(self) -> bool:
        return self.ratio <= self.limit if self.at_most else self.ratio >= self.limit

    @property
    def told(self) -> str:
        return f"{self.text} = {self.ratio:.2f} ({'≤' if self.at_most else '≥'} {self.limit:g})"


@dataclass(frozen=True, slots=True)
class Row:
    """One thing measured: its samples in a unit, and the bounds on it; or why there are none on this machine."""

    name: str
    samples: tuple[float, ...]
    unit: str = "ms"
    bounds: tuple[Bound, ...] = ()
    missing: str = ""

    @property
    def p50(self) -> float:
        return statistics.median(self.samples)

    @property
    def p95(self) -> float:
        return sorted(self.samples)[min(len(self.samples) - 1, int(len(self.samples) * 0.95))]

    def as_dict(self) -> dict[str, object]:
        if self.missing:
            return {"name": self.name, "n": 0, "missing": self.missing}
        bounds = [{"text": b.text, "ratio": b.ratio, "limit": b.limit, "held": b.held} for b in self.bounds]
        return {
            "name": self.name,
            "unit": self.unit,
            "p50": self.p50,
            "p95": self.p95,
            "n": len(self.samples),
            "bounds": bounds,
        }


def missed(rows: Sequence[Row]) -> list[Bound]:
    """Returns the bounds that did not hold."""
    return [bound for row in rows for bound in row.bounds if not bound.held]


def machine() -> dict[str, str]:
    """Returns what the figures were taken on."""
    client = connect(connection())
    info = client.info()
    client.close()
    return {
        "cores": str(os.cpu_count()),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "docker": info["ServerVersion"],
        "storage": info["Driver"],
        "cgroup": info.get("CgroupVersion", "1"),
        "cpu": _cpu(),
    }


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown"
    )


def as_markdown(rows: Sequence[Row], facts: dict[str, str]) -> str:
    """Returns the table for people."""
    lines = [
        ", ".join(f"{name} {value}" for name, value in facts.items()),
        "",
        "| what | p50 | p95 | n | bound |",
        "|---|---:|---:|---:|---|",
    ]
    return "\n".join((*lines, *map(_line, rows))) + "\n"


def _line(row: Row) -> str:
    if row.missing:
        return f"| {row.name} | - | - | 0 | not measured: {row.missing} |"
    bounds = "; ".join(f"{'held' if b.held else 'MISSED'}: {b.told}" for b in row.bounds)
    return f"| {row.name} | {row.p50:.2f} {row.unit} | {row.p95:.2f} {row.unit} | {len(row.samples)} | {bounds} |"
