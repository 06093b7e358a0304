"""`make bench`: what a sandbox costs, beside the alternatives, in one process; exit 1 where a bound is missed.

With `--check`, `make bench-check`: the gate for changes, which fails where a ratio is a quarter worse than its bound.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path

from tests.bench import bubblewrap, catalog, controller, handlers, idle, peers, single_use, skill_tests, warm
from tests.bench.chart import as_svg
from tests.bench.report import Row, as_markdown, machine, missed
from tests.bench.scenarios import Bench

RESULTS = Path(__file__).parent / "results"

TOLERANCE = 1.25
"""How much worse than its bound a ratio may be for the gate: on one machine they differ by a tenth from day to day."""


async def measure(folder: Path) -> list[Row]:
    """Measures every row; the pairs that are compared are taken in turns."""
    async with Bench.opened(folder) as bench:
        return [
            *await warm.rows(bench),
            *[row async for row in bench.rows()],
            *await handlers.rows(bench),
            *await peers.rows(bench),
            *await single_use.rows(bench),
            *await idle.rows(bench),
            *await bubblewrap.rows(bench),
            *await skill_tests.rows(bench),
        ]


def main() -> int:
    """Prints the table and keeps it; returns 1 when a ratio misses its bound."""
    with tempfile.TemporaryDirectory(prefix="sandbox-skills-bench-") as folder:
        rows = asyncio.run(measure(Path(folder)))
        rows += catalog.rows(Path(folder, "skills"))
        rows += asyncio.run(controller.rows())
    facts = machine()
    RESULTS.mkdir(exist_ok=True)
    text = as_markdown(rows, facts)
    (RESULTS / "bench.md").write_text(text, encoding="utf-8")
    (RESULTS / "bench.svg").write_text(as_svg(rows), encoding="utf-8")
    data = {"machine": facts, "rows": [row.as_dict() for row in rows]}
    (RESULTS / "bench.json").write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(text)
    return 1 if missed(rows, TOLERANCE if "--check" in sys.argv[1:] else 1.0) else 0


if __name__ == "__main__":
    sys.exit(main())
