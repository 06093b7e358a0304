"""Two hundred sessions, half of them cancelled at any moment, leave nothing on the host."""

from __future__ import annotations

import asyncio
import gc
import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.artifacts import LocalArtifactStore
from sandbox_skills.engines.docker import DockerEngine, DockerEngineOptions
from sandbox_skills.engines.pool import PooledEngine
from sandbox_skills.errors import SandboxSkillsError
from sandbox_skills.spec import MIB, Limits, SandboxLimits, SandboxSpec
from sandbox_skills.workspace.choices import SessionPolicy
from sandbox_skills.workspace.input_refs import InputRef
from sandbox_skills.workspace.manager import RunRequest, Services, Shell, WorkspaceManager
from sandbox_skills.workspace.output_spec import OutputRequest
from sandbox_skills.workspace.sessions import SessionManager
from tests.docker_host import connection

if TYPE_CHECKING:
    from sandbox_skills.workspace.staging import SkillStore

pytestmark = [pytest.mark.anyio, pytest.mark.docker]

SESSIONS = 200
AT_ONCE = 8
"""More would only queue in the daemon, and the moments of the cancels would all be in that queue."""

LONGEST_SECONDS = 0.6
"""A cancel comes by then: an opening, a run, a collection and an end take about half a second among eight."""

SPEC = SandboxSpec(limits=SandboxLimits(memory=128 * MIB, workspace_bytes=16 * MIB, tmp_bytes=8 * MIB))
POLICY = SessionPolicy(idle_seconds=2.0, max_age_seconds=60.0, max_per_tenant=SESSIONS)

SEED = 4
"""Of the moments: so that a failure can be had again, as far as two processors allow."""


def descriptors() -> int:
    """Returns how many this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if not path.is_dir()]


async def used(sessions: SessionManager, skill: Path, number: int) -> None:
    """One session: opened, used for a few things, a third of them closed and the others left to themselves."""
    session = await sessions.open(str(number), tenant="t")
    staged = await session.stage(skill)
    request = RunRequest(
        Shell("head -c 100K /dev/urandom > out/x; cat SKILL.md > out/t; sleep 0.05"),
        wanted=OutputRequest(("out/*",)),
        writable_skill=number % 2 == 0,
    )
    await session.run(staged, request)
    await session.run(staged, replace(request, inputs=(InputRef("workspace://out/x"),)))
    if number % 3 == 0:
        await session.close()


async def used_or_cancelled(
    sessions: SessionManager, skill: Path, number: int, cancel_after: float | None
) -> str:
    task = asyncio.ensure_future(used(sessions, skill, number))
    await asyncio.wait([task], timeout=cancel_after)
    task.cancel()
    (result,) = await asyncio.gather(task, return_exceptions=True)
    if isinstance(result, Exception) and not isinstance(result, SandboxSkillsError):
        raise result
    return "used" if result is None else type(result).__name__


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_two_hundred_sessions_half_cancelled_leave_nothing(store: SkillStore, tmp_path: Path) -> None:
    skill = tmp_path / "skill"
    skill.mkdir()
    (skill / "SKILL.md").write_text("x")
    chance = random.Random(SEED)
    moments = [chance.uniform(0, LONGEST_SECONDS) if number % 2 else None for number in range(SESSIONS)]
    before = descriptors()
    engine = DockerEngine(
        DockerEngineOptions(
            tmp_path / "engine", connection(), skills_dir=store.mount_dir, marker=store.marker()
        )
    )
    try:
        async with PooledEngine(engine, SPEC, size=2) as pool:
            services = Services(LocalArtifactStore(tmp_path / "artifacts"))
            manager = WorkspaceManager(
                pool, store, spec=SPEC, limits=Limits(wall_seconds=15), services=services
            )
            async with SessionManager(manager, policy=POLICY, snapshots=tmp_path / "left") as sessions:
                turns = asyncio.Semaphore(AT_ONCE)

                async def one(number: int) -> str:
                    async with turns:
                        return await used_or_cancelled(sessions, skill, number, moments[number])

                ends = await asyncio.gather(*map(one, range(SESSIONS)))
    finally:
        await engine.aclose()
    assert set(ends) == {"used", "CancelledError"}
    assert ends.count("CancelledError") >= SESSIONS / 8
    gc.collect()
    assert descriptors() <= before
    assert files_below(tmp_path / "left") == []
    assert [task for task in asyncio.all_tasks() if task.get_name().startswith(("session", "pool"))] == []
