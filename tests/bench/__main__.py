"""`make bench`: what a sandbox costs, beside the alternatives, in one process; exit 1 where a bound is missed.

With `--check`, `make bench-check`: the gate for changes, which fails where a ratio is a quarter worse than its bound,
or than what `recorded.py` says was reached of it, and names it.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench import (
    bubblewrap,
    catalog,
    controller,
    daemon,
    handlers,
    idle,
    peers,
    pooled,
    program,
    single_use,
    skill_tests,
    warm,
)
from tests.bench.chart import as_svg
from tests.bench.recorded import regressed
from tests.bench.report import Row, as_markdown, machine, missed
from tests.bench.scenarios import Bench

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

RESULTS = Path(__file__).parent / "results"

SKILLS = 30
"""For the cases of skills, of which there are three each: `python -m tests.bench.skill_tests` takes a hundred."""

PARTS: Mapping[str, Callable[[Bench], Awaitable[list[Row]]]] = {
    "warm runs": warm.rows,
    "pooled runs": pooled.rows,
    "cold starts, collection": Bench.rows,
    "Python and Node programs": handlers.rows,
    "peers": peers.rows,
    "single use": single_use.rows,
    "memory at rest": idle.rows,
    "bubblewrap": bubblewrap.rows,
    "cases of skills": partial(skill_tests.rows, skills=SKILLS),
}


async def measure(folder: Path) -> list[Row]:
    """Measures every row that needs a sandbox of Docker's; the pairs that are compared are taken in turns."""
    rows: list[Row] = []
    async with Bench.opened(folder) as bench:
        for name, part in PARTS.items():
            tell(name)
            await bench.rested()
            rows += await part(bench)
    return rows


def tell(part: str) -> None:
    """Says what is being measured: all together takes some minutes."""
    sys.stderr.write(f"{time.strftime('%X')} {part}\n")


def main() -> int:
    """Prints the table and keeps it; returns 1 when a ratio misses its bound."""
    with tempfile.TemporaryDirectory(prefix="sandbox-skills-bench-") as folder:
        rows = asyncio.run(measure(Path(folder)))
        tell("catalog")
        rows += catalog.rows(Path(folder, "skills"))
    tell("the program's start")
    rows += program.rows()
    tell("controller")
    rows += asyncio.run(controller.rows())
    tell("server")
    rows += daemon.measured()
    facts = machine()
    RESULTS.mkdir(exist_ok=True)
    text = as_markdown(rows, facts)
    (RESULTS / "bench.md").write_text(text, encoding="utf-8")
    (RESULTS / "bench.svg").write_text(as_svg(rows), encoding="utf-8")
    data = {"machine": facts, "rows": [row.as_dict() for row in rows]}
    (RESULTS / "bench.json").write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(text)
    worse = regressed(rows) if "--check" in sys.argv[1:] else missed(rows)
    for bound in worse:
        sys.stderr.write(f"worse than it must be: {bound.told}\n")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
