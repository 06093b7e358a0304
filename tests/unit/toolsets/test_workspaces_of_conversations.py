"""Which workspace a call runs in: a conversation's own, a skill's own where it has secrets, and a new one in time."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.catalog import Catalog, SkillRoot
from sandbox_skills.engines.fake import FakeEngine
from sandbox_skills.errors import QuotaError
from sandbox_skills.policy import Policy, SkillRule
from sandbox_skills.spec import SandboxSpec
from sandbox_skills.toolsets import skill_runs as skill_runs_module
from sandbox_skills.toolsets.base import CallContext, Conversation
from sandbox_skills.toolsets.offered import OfferedSkills
from sandbox_skills.toolsets.skill_runs import EMPTIED, SkillRuns, workspace_name
from sandbox_skills.workspace import kept_session
from sandbox_skills.workspace.choices import SessionPolicy
from sandbox_skills.workspace.inputs import Input
from sandbox_skills.workspace.manager import Argv, RunRequest, WorkspaceManager
from sandbox_skills.workspace.request import Shell
from sandbox_skills.workspace.sessions import SessionManager
from sandbox_skills.workspace.staging import SkillStore

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from sandbox_skills.engines.base import Sandbox

pytestmark = pytest.mark.anyio

TRUE = RunRequest(Argv(("true",)))
CAT = RunRequest(Argv(("cat", "/workspace/work/a.txt")))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def runs(
    tmp_path: Path,
    policy: Policy | None = None,
    session: SessionPolicy | None = None,
    engine: FakeEngine | None = None,
) -> AsyncGenerator[tuple[SkillRuns, FakeEngine]]:
    folder = tmp_path / "skills/greet"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: greet\ndescription: d\n---\nb\n", encoding="utf-8")
    engine = engine or FakeEngine()
    manager = WorkspaceManager(engine, SkillStore(tmp_path / "store"), spec=SandboxSpec(needs=frozenset()))
    offered = OfferedSkills(Catalog([SkillRoot(str(tmp_path / "skills"))]))
    async with SessionManager(manager, policy=session, snapshots=tmp_path / "snapshots") as sessions:
        yield SkillRuns(offered, sessions, policy or Policy(), {"KEY": "s3cret-value"}), engine


def context(name: str = "c") -> CallContext:
    return CallContext(Conversation(name, tenant="t"))


async def test_calls_of_one_conversation_share_a_workspace(tmp_path: Path) -> None:
    async with runs(tmp_path) as (skill_runs, engine):
        spec = await skill_runs.find("greet")
        for name in ("c", "c", "d"):
            await skill_runs.run(spec, TRUE, context(name), tool="x")
        assert len(engine.open_sandboxes) == 2


async def test_a_skill_with_secrets_has_one_of_its_own(tmp_path: Path) -> None:
    policy = Policy(skills={"greet": SkillRule(secrets=("KEY",))})
    async with runs(tmp_path, policy) as (skill_runs, _):
        spec = await skill_runs.find("greet")
        await skill_runs.run(spec, TRUE, context(), tool="x")
        await skill_runs.run(None, TRUE, context(), tool="x")
        await skill_runs.run(None, TRUE, context("c/greet"), tool="x")
        live = {info.id for info in skill_runs.sessions.sessions(tenant="t")}
        assert live == {"c", "c/greet", "c%2Fgreet"}
        own = await skill_runs.workspaces(Conversation("c", tenant="t"))
        assert {session.id for session in own} == {"c", "c/greet"}


async def test_a_workspace_that_was_lost_is_told_once(tmp_path: Path) -> None:
    async with runs(tmp_path) as (skill_runs, engine):
        await skill_runs.run(None, TRUE, context(), tool="x")
        (box,) = engine.open_sandboxes.values()
        box.lose()
        with pytest.raises(Exception, match="is gone"):
            await skill_runs.run(None, TRUE, context(), tool="x")
        first = await skill_runs.run(None, TRUE, context(), tool="x")
        second = await skill_runs.run(None, TRUE, context(), tool="x")
        assert EMPTIED in first.notes
        assert EMPTIED not in second.notes


async def test_of_conversations_that_never_come_back_no_more_than_some_are_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(skill_runs_module, "MAX_EMPTIED", 2)
    async with runs(tmp_path) as (skill_runs, _):
        for name in ("a", "b", "b", "c"):
            skill_runs.emptied(Conversation(name, tenant="t"))
        told = [await skill_runs.run(None, TRUE, context(name), tool="x") for name in ("a", "b", "c")]
        assert [EMPTIED in result.notes for result in told] == [False, True, True]
        assert not skill_runs._emptied


async def test_one_conversation_too_many_takes_the_place_of_the_one_at_rest_which_finds_its_files_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_session, "REST_SECONDS", 0.0)
    policy = SessionPolicy(max_per_tenant=2)
    async with runs(tmp_path, session=policy) as (skill_runs, engine):
        (tmp_path / "a.txt").write_text("kept", encoding="utf-8")
        put = replace(TRUE, inputs=(Input(tmp_path / "a.txt", "work/a.txt"),))
        await skill_runs.run(None, put, context("first"), tool="x")
        for name in ("second", "third", "fourth"):
            await skill_runs.run(None, TRUE, context(name), tool="x")
        assert len(engine.open_sandboxes) == 2
        back = await skill_runs.run(None, CAT, context("first"), tool="x")
        assert (back.outcome.stdout, back.notes) == (b"kept", ())


class HesitantEngine(FakeEngine):
    """Opens its first sandbox never, and takes its time to give that up."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.may_end = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def open(self, spec: SandboxSpec) -> AsyncGenerator[Sandbox]:
        if not self.asked.is_set():
            self.asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                await self.may_end.wait()
        async with super().open(spec) as sandbox:
            yield sandbox


async def test_a_call_after_one_that_was_cancelled_while_its_workspace_opened_has_a_workspace(
    tmp_path: Path,
) -> None:
    hesitant = HesitantEngine()
    async with runs(tmp_path, engine=hesitant) as (skill_runs, _):
        first = asyncio.ensure_future(skill_runs.workspace(Conversation("c", tenant="t")))
        await hesitant.asked.wait()
        first.cancel()
        await asyncio.wait([first])
        second = asyncio.ensure_future(skill_runs.run(None, TRUE, context(), tool="x"))
        for _ in range(3):  # it asks for its workspace while the first is still being given up
            await asyncio.sleep(0)
        hesitant.may_end.set()
        assert (await second).outcome.ok


async def test_no_conversation_that_works_loses_its_place(tmp_path: Path) -> None:
    async with runs(tmp_path, session=SessionPolicy(max_per_tenant=1)) as (skill_runs, _):
        program = await skill_runs.start(None, RunRequest(Shell("read never")), context("busy"), tool="x")
        with pytest.raises(QuotaError):
            await skill_runs.run(None, TRUE, context("other"), tool="x")
        assert program.program.running


@given(
    st.tuples(st.text(), st.sampled_from(["", "a", "b-c"])),
    st.tuples(st.text(), st.sampled_from(["", "a", "b-c"])),
)
def test_no_two_workspaces_have_one_name(one: tuple[str, str], other: tuple[str, str]) -> None:
    names = [workspace_name(Conversation(name, tenant="t"), skill) for name, skill in (one, other)]
    assert (names[0] == names[1]) is (one == other)


def test_names_in_common_use_stay_as_they_are() -> None:
    assert workspace_name(replace(Conversation("mcp-stdio_1.x~", tenant="t"))) == "mcp-stdio_1.x~"
