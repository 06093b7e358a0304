"""What open idle sessions cost the host beside their sandboxes, which the fake engine has none of."""

from __future__ import annotations

import gc
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.engines.fake import FakeEngine
from sandbox_skills.spec import KIB, SandboxSpec
from sandbox_skills.workspace.choices import SessionPolicy
from sandbox_skills.workspace.manager import Argv, RunRequest, WorkspaceManager
from sandbox_skills.workspace.sessions import SessionManager
from sandbox_skills.workspace.staging import SkillStore

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

SESSIONS = 1_000
MOST = 50 * KIB


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_thousand_idle_sessions_that_have_run_something_take_little_memory(tmp_path: Path) -> None:
    skill = tmp_path / "skill"
    skill.mkdir()
    (skill / "SKILL.md").write_text("---\nname: skill\ndescription: Does nothing.\n---\n")
    manager = WorkspaceManager(
        FakeEngine(), SkillStore(tmp_path / "store"), spec=SandboxSpec(needs=frozenset())
    )
    async with SessionManager(manager, policy=SessionPolicy(max_per_tenant=SESSIONS + 1)) as sessions:

        async def used(name: str) -> None:
            session = await sessions.open(name, tenant="alice")
            await session.run(await session.stage(skill), RunRequest(Argv(("true",))))

        await used("first")  # what all of them share is there from here on
        gc.collect()
        tracemalloc.start()
        try:
            for number in range(SESSIONS):
                await used(str(number))
            gc.collect()
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert len(sessions.sessions(tenant="alice")) == SESSIONS + 1
        assert held / SESSIONS <= MOST
