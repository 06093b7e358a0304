"""Each engine that keeps the contract, by one name, and sessions on it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, cast

import pytest

from sandbox_skills.engines.fake import FakeEngine, FakeSandbox
from sandbox_skills.engines.local import LocalEngine
from sandbox_skills.errors import EngineUnavailableError
from sandbox_skills.spec import Exited, Limits, SandboxSpec
from sandbox_skills.workspace.choices import SessionPolicy
from sandbox_skills.workspace.manager import Argv, RunRequest, Services, WorkspaceManager
from sandbox_skills.workspace.sessions import SessionManager
from tests.boxes import kill
from tests.contract.engines import ALL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from sandbox_skills.engines.base import Engine, Sandbox
    from sandbox_skills.telemetry import AuditEvent
    from sandbox_skills.workspace.live_session import LiveSession
    from sandbox_skills.workspace.staging import SkillStore, StagedSkill

TRUE = RunRequest(Argv(("true",)))


@pytest.fixture(params=ALL)
def engine(request: pytest.FixtureRequest) -> Engine:
    if request.param == "fake":
        return FakeEngine()
    return cast("Engine", request.getfixturevalue(f"{request.param}_engine"))


@pytest.fixture
def spec(engine: Engine) -> SandboxSpec:
    """Demands nothing of those that isolate nothing, everything of the others."""
    return SandboxSpec(needs=frozenset()) if isinstance(engine, FakeEngine | LocalEngine) else SandboxSpec()


@pytest.fixture
async def sandbox(engine: Engine, spec: SandboxSpec) -> AsyncIterator[Sandbox]:
    async with engine.open(spec) as opened:
        yield opened


class Audit:
    def __init__(self) -> None:
        self.events: list[AuditEvent] = []

    def record(self, event: AuditEvent) -> None:
        self.events.append(event)


class Counting:
    """An engine that counts the boxes it opens, and can be told to fail or to take its time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.opened = 0
        self.now = 0
        self.failing = False
        self.slow = 0.0
        self.boxes: list[Sandbox] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._engine, name)

    @asynccontextmanager
    async def open(self, spec: SandboxSpec) -> AsyncIterator[Sandbox]:
        if self.failing:
            raise EngineUnavailableError("the engine is away")
        self.now += 1
        try:
            await asyncio.sleep(self.slow)
            async with self._engine.open(spec) as sandbox:
                self.opened += 1
                self.boxes.append(sandbox)
                yield sandbox
        finally:
            self.now -= 1


class World:
    """An engine, a manager on it, and session managers that a test opens."""

    policy = SessionPolicy(idle_seconds=60, max_age_seconds=120)

    def __init__(self, engine: Engine, store: SkillStore, spec: SandboxSpec, folder: Path) -> None:
        self.engine = Counting(engine)
        self.audit = Audit()
        self.folder = folder
        self._staged: dict[str, StagedSkill] = {}
        self.manager = WorkspaceManager(
            self.engine,  # type: ignore[arg-type]  # it hands on what it does not have
            store,
            spec=spec,
            limits=Limits(wall_seconds=15),
            services=Services(audit=self.audit),
        )

    @asynccontextmanager
    async def sessions(self, policy: SessionPolicy | None = None) -> AsyncIterator[SessionManager]:
        """Gives a keeper of sessions. The skill is staged before: that is no use of a session, which may expire."""
        for tenant in ("t", "other"):
            self._staged[tenant] = await self.manager.stage(self.folder / "skill", tenant=tenant)
        chosen, kept = policy or self.policy, self.folder / "kept"
        async with SessionManager(self.manager, policy=chosen, snapshots=kept) as sessions:
            yield sessions
        assert self.engine.now == 0
        assert list(self.folder.glob("kept/*")) == []

    def staged(self, session: LiveSession) -> StagedSkill:
        """Returns the skill as the tenant of a session has it."""
        return self._staged[session._kept.tenant]

    async def run(self, session: LiveSession, request: RunRequest = TRUE) -> bytes:
        """Returns what a run of the skill prints; it must exit with 0."""
        result = await session.run(self.staged(session), request)
        assert result.outcome.ending == Exited(0), result.outcome
        return result.outcome.stdout

    async def write(self, session: LiveSession, name: str, text: str) -> None:
        await self.run(session, RunRequest(Argv(("tee", f"/workspace/{name}")), stdin=text.encode()))

    async def read(self, session: LiveSession, name: str) -> str:
        return (await self.run(session, RunRequest(Argv(("cat", f"/workspace/{name}"))))).decode()

    @staticmethod
    async def in_use(session: LiveSession, count: int = 1) -> None:
        """Waits until so many use a session: one, and behind it those that wait for their turn."""
        async with asyncio.timeout(10):
            while session._kept._users < count:  # noqa: ASYNC110  # nobody is told
                await asyncio.sleep(0.005)

    async def grow_too_old(self, sessions: SessionManager) -> None:
        """Lets the time pass that a session lives at most, for each of them and for nobody else."""
        async with asyncio.timeout(10):
            for kept in list(sessions._kept.values()):
                kept._born -= self.policy.max_age_seconds
                kept._changed.set()
                while not kept.over:  # noqa: ASYNC110  # as above
                    await asyncio.sleep(0)

    async def expired(self, sessions: SessionManager) -> None:
        """Waits until no session lives."""
        async with asyncio.timeout(10):
            while sessions._kept:  # noqa: ASYNC110  # nobody is told of an expiry
                await asyncio.sleep(0.01)

    def lose(self, request: pytest.FixtureRequest) -> None:
        """Takes the last box away from outside, as a daemon or an operator may."""
        sandbox = self.engine.boxes[-1]
        if isinstance(sandbox, FakeSandbox):
            sandbox.lose()
            return
        if request.node.get_closest_marker("docker") is None:
            kill(sandbox)
            return
        daemon = request.getfixturevalue("daemon")
        (row,) = daemon.containers(filters={"label": f"sandbox-skills.sandbox={sandbox.id}"}) or [None]
        daemon.kill(row["Id"])


@pytest.fixture
def world(engine: Engine, store: SkillStore, spec: SandboxSpec, tmp_path: Path) -> World:
    (tmp_path / "skill").mkdir()
    (tmp_path / "skill" / "SKILL.md").write_text("x")
    return World(engine, store, spec, tmp_path)
