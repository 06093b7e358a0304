"""What a scan of many skills costs on one core, beside the reference library: `python -m tests.bench.catalog`."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import time
import tracemalloc
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import skills_ref  # type: ignore[import-untyped]  # it has no types

from sandbox_skills.catalog import LENIENT, Catalog, SkillRoot, SkillScanner
from tests.bench.report import Bound, Row, as_markdown, missed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SKILLS = 10_000
GROUP = 100
"""Skills in one folder, as a large collection has them."""

ROUNDS = 5
COMPARED = 500
"""Skills that the reference library reads in each round: all of them would take it half a minute."""

BODY = "Read the input, do the work, write the result to `out/`.\n" * 100
"""About 6,000 characters, which is the median of published skills."""

FRONT = """---
name: {name}
description: Turns {name} input into a report. Use it when somebody asks for number {number} of the collection.
license: Apache-2.0
metadata:
  author: example
  version: "1.{number}"
allowed-tools: Bash(git:*) Read Write
---

# {name}

"""


def generate(root: Path, number: int = SKILLS) -> list[Path]:
    """Writes skills in groups below `root`; returns their folders."""
    folders: list[Path] = []
    for index in range(number):
        name = f"skill-{index:05}"
        folder = root / f"group-{index // GROUP:03}" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(FRONT.format(name=name, number=index) + BODY, encoding="utf-8")
        folders.append(folder)
    return folders


def rows(folder: Path) -> list[Row]:
    """Measures everything in the empty directory `folder`."""
    folders = generate(folder)
    time.sleep(2.1)  # until the stamps of the files are believed
    with _one_core():
        cold: list[float] = []
        warm: list[float] = []
        theirs: list[float] = []
        for turn in range(ROUNDS):
            cold.append(SKILLS / _seconds(lambda: _scanned(folder)))
            catalog = Catalog([SkillRoot(str(folder))])
            catalog.snapshot()
            warm.append(SKILLS / _seconds(catalog.snapshot))
            some = folders[turn * COMPARED : (turn + 1) * COMPARED]
            theirs.append(COMPARED / _seconds(partial(_loaded_and_checked, some)))
        memory = _memory(folder)
    return _rows(cold, warm, theirs, memory)


def _rows(cold: list[float], warm: list[float], theirs: list[float], memory: float) -> list[Row]:
    ours = Row(f"scan of {SKILLS:,} skills, cold", tuple(cold), "skills/s")
    again = Row("the same again, nothing changed", tuple(warm), "skills/s")
    other = Row(f"skills-ref, load and check, {COMPARED} of them", tuple(theirs), "skills/s")
    return [
        Row(ours.name, ours.samples, ours.unit, (Bound("a second", ours.p50, 3000, at_most=False),)),
        Row(
            again.name,
            again.samples,
            again.unit,
            (Bound("over cold", again.p50 / ours.p50, 10, at_most=False),),
        ),
        Row(
            other.name,
            other.samples,
            other.unit,
            (Bound("cold over it", ours.p50 / other.p50, 20, at_most=False),),
        ),
        Row("memory of a skill", (memory,), "KiB", (Bound("KiB", memory, 8, at_most=True),)),
    ]


def _loaded_and_checked(folders: list[Path]) -> None:
    """What a scan does of each skill: the reference library reads it once for its values, once for its faults."""
    for folder in folders:
        skills_ref.read_properties(folder)
        assert skills_ref.validate(folder) == []


def _scanned(folder: Path) -> None:
    result = SkillScanner([SkillRoot(str(folder))], LENIENT).scan()
    assert len(result.skills) == SKILLS


def _seconds(work: Callable[[], object]) -> float:
    gc.collect()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _memory(folder: Path) -> float:
    """Returns the KiB that a catalog keeps of one skill."""
    tracemalloc.start()
    try:
        catalog = Catalog([SkillRoot(str(folder))])
        assert len(catalog.list()) == SKILLS
        gc.collect()
        return tracemalloc.get_traced_memory()[0] / SKILLS / 1024
    finally:
        tracemalloc.stop()


@contextmanager
def _one_core() -> Iterator[None]:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="sandbox-skills-bench-") as place:
        measured = rows(Path(place))
    sys.stdout.write(as_markdown(measured, {}))
    sys.exit(bool(missed(measured)))
