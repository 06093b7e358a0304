"""Cases of skills a second, beside bare sandboxes of the same pool: `python -m tests.bench.skill_tests`."""

from __future__ import annotations

import asyncio
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

from sandbox_skills.ci.attempt import Attempts
from sandbox_skills.ci.discovery import find_skills
from sandbox_skills.ci.plan import PlanRules, plan_trials
from sandbox_skills.ci.running import Running, RunningRules
from sandbox_skills.ci.selection import chosen
from sandbox_skills.spec import BASE_GUARANTEES, Command, Limits
from sandbox_skills.workspace.manager import WorkspaceManager
from tests.bench.report import Bound, Row
from tests.bench.scenarios import SPEC, TENANT, Bench, alone

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox_skills.ci.trial import Trial

SKILLS = 100
ROUNDS = 4
JOBS = 2

LEAST = 0.8
"""Of the rate of bare sandboxes that cases must reach."""

CASES = """\
cases:
  - name: case prints
    script: scripts/say.sh
    args: [hello]
    expect: {stdout: {equals: "hello\\n"}}
  - name: case keeps
    run: sh scripts/say.sh x > out/x.txt
    expect: {files: [{path: out/x.txt, count: 1, content: {contains: x}}], no_other_files: true}
  - name: case refuses
    script: scripts/say.sh
    expect: {exit: 2}
"""


def write_skills(root: Path, skills: int) -> None:
    """Writes so many skills of three cases each, no two of the same content."""
    for number in range(skills):
        skill = root / f"skill-{number}"
        (skill / "scripts").mkdir(parents=True)
        (skill / "tests").mkdir()
        text = f"---\nname: skill-{number}\ndescription: Says.\n---\n{number}\n"
        (skill / "SKILL.md").write_text(text, encoding="utf-8")
        (skill / "scripts/say.sh").write_text('[ "$1" ] || exit 2\necho "$1"\n', encoding="utf-8")
        (skill / "tests/basic.yaml").write_text(CASES, encoding="utf-8")


async def bare(bench: Bench, times: int) -> float:
    """Returns how many sandboxes a second run `true` and end, each used once."""
    waiting = iter(range(times))

    async def work() -> None:
        for _ in waiting:
            async with bench.pool.open(SPEC) as sandbox:
                await sandbox.run(Command(("true",)))

    started = time.monotonic()
    await asyncio.gather(*(work() for _ in range(JOBS)))
    await bench.pool.settled()
    return times / (time.monotonic() - started)


async def tested(bench: Bench, trials: list[Trial]) -> float:
    """Returns how many cases a second are staged, run, collected and compared; all pass."""
    attempts = Attempts(WorkspaceManager(bench.pool, bench.store, spec=SPEC), Limits(), TENANT, bench.folder)
    started = time.monotonic()
    report = await Running(trials, attempts.make, RunningRules(jobs=JOBS), lambda _: None).run()
    await bench.pool.settled()
    assert report.count("passed") == len(trials), report.results
    return len(trials) / (time.monotonic() - started)


async def rows(bench: Bench, *, skills: int = SKILLS) -> list[Row]:
    """Measures both in turns, a part of the skills each time."""
    root = bench.folder / "tested"
    write_skills(root, skills)
    rules = PlanRules(Limits(), 900.0, BASE_GUARANTEES)
    trials = chosen(await asyncio.to_thread(lambda: plan_trials(find_skills([root]), rules)), ["::case"])
    assert len(trials) == 3 * skills
    await bench.pool.settled()
    rates: tuple[list[float], list[float]] = ([], [])
    for part in range(ROUNDS):
        some = trials[part * len(trials) // ROUNDS : (part + 1) * len(trials) // ROUNDS]
        for measured, rate in zip(
            (partial(bare, bench, len(some)), partial(tested, bench, some)), rates, strict=True
        ):
            rate.append(await measured())
    sandboxes = Row("sandboxes used once for true, two at a time", tuple(rates[0]), "a second")
    cases = Row(f"cases of {skills} skills, two at a time", tuple(rates[1]), "a second")
    bound = Bound("cases ÷ sandboxes", cases.p50 / sandboxes.p50, LEAST, at_most=False)
    return [sandboxes, Row(cases.name, cases.samples, cases.unit, (bound,))]


if __name__ == "__main__":
    sys.exit(alone(rows))
