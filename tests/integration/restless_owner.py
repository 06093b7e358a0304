"""A process that runs skills in every way there is, cancels half of them at any moment, and may be killed at any.

It prints one line of JSON for each run that begins, and at its end what it still holds. Started by the tests of leaks.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox_skills.engines.bubblewrap import BubblewrapEngine
from sandbox_skills.errors import SandboxSkillsError
from sandbox_skills.settings import load_settings
from sandbox_skills.wiring import opened
from sandbox_skills.workspace.input_refs import InputRef
from sandbox_skills.workspace.manager import RunRequest, Shell
from sandbox_skills.workspace.output_spec import OutputRequest

if TYPE_CHECKING:
    from sandbox_skills.wiring import Live

AT_ONCE = 4

LONGEST_SECONDS = 0.5
"""A cancel comes by then: a box that is not warm takes about that long among four."""

MAKING = Shell(
    "head -c 200K /dev/urandom > out/x; cat SKILL.md > out/t; (setsid sleep 60 &) > /dev/null 2>&1; sleep 0.03"
)
REQUEST = RunRequest(MAKING, wanted=OutputRequest(("out/*",), save_as_artifacts=True))


def tell(**values: object) -> None:
    print(json.dumps(values), flush=True)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def alone(live: Live, skill: Path, number: int) -> None:
    """One box for one run."""
    await live.manager.run(skill, REQUEST, tenant="t")


async def in_session(live: Live, skill: Path, number: int) -> None:
    """Two runs in one session, its files kept, and half of them closed."""
    session = await live.sessions.open(str(number), tenant="t")
    staged = await session.stage(skill)
    await session.run(staged, REQUEST)
    await session.run(
        staged, RunRequest(MAKING, inputs=(InputRef("workspace://out/x"),), writable_skill=True)
    )
    if number % 2:
        await session.close()


async def freshly_staged(live: Live, skill: Path, number: int) -> None:
    """A skill that nobody staged before, with files enough to be interrupted in the middle of them."""
    own = skill.parent / f"skill-{random.getrandbits(64):016x}"
    own.mkdir()
    for name in ("SKILL.md", *map(str, range(100))):
        (own / name).write_text(f"{number} {random.random()}", encoding="utf-8")
    await live.manager.run(own, RunRequest(Shell("wc -c *")), tenant="t")


async def asleep(live: Live, skill: Path, number: int) -> None:
    """A run that only a cancel or its time ends."""
    await live.manager.run(skill, RunRequest(Shell("sleep 60 & sleep 60"), timeout=0.5), tenant="t")


WAYS = (alone, in_session, freshly_staged, asleep)


async def one(live: Live, skill: Path, number: int, cancel_after: float | None) -> None:
    tell(begun=number)
    task = asyncio.ensure_future(random.choice(WAYS)(live, skill, number))
    await asyncio.wait([task], timeout=cancel_after)
    task.cancel()
    (result,) = await asyncio.gather(task, return_exceptions=True)
    if isinstance(result, Exception) and not isinstance(result, SandboxSkillsError):
        raise result
    if isinstance(result, SandboxSkillsError):
        tell(failed=f"{type(result).__name__}: {result}")


async def work(given: dict[str, Any]) -> None:
    settings = load_settings(
        {"data_dir": given["data_dir"], "engine": given["engine"], "pool.size": 2, **given["settings"]}
    )
    async with opened(settings) as live:
        await live.engine.probe()
        engine = live.engine._engine  # type: ignore[attr-defined]  # the pool's
        async with live.manager.session(tenant="t"):  # then there is an instance
            launch = engine._launch if isinstance(engine, BubblewrapEngine) else None
            tell(instance=engine._instance.id, launcher=launch and launch._process.pid)
        turns = asyncio.Semaphore(AT_ONCE)

        async def in_turn(number: int) -> None:
            async with turns:
                moment = random.uniform(0, LONGEST_SECONDS) if number % 2 else None
                await one(live, Path(given["skill"]), number, moment)

        await asyncio.gather(*map(in_turn, range(given["runs"])))


def main() -> None:
    given = json.loads(sys.argv[1])
    random.seed(given["seed"])
    asyncio.run(asyncio.sleep(0))
    before = descriptors()
    asyncio.run(work(given))
    gc.collect()
    tell(held=descriptors() - before)


if __name__ == "__main__":
    main()
