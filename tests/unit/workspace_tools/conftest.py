"""The workspace toolset over the fake engine: real sessions, store, catalog, artifacts; made-up programs."""

from __future__ import annotations

import shlex
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_skills.artifacts import LocalArtifactStore
from sandbox_skills.catalog import Catalog, SkillRoot
from sandbox_skills.engines.fake import FakeEngine
from sandbox_skills.engines.fake_programs import PROGRAMS
from sandbox_skills.policy import Policy
from sandbox_skills.spec import SandboxSpec
from sandbox_skills.toolsets.base import Conversation, ToolCall, ToolResult
from sandbox_skills.toolsets.offered import OfferedSkills
from sandbox_skills.toolsets.skill_runs import SkillRuns
from sandbox_skills.toolsets.toolbox import Toolbox
from sandbox_skills.toolsets.workspace_tools.options import WorkspaceToolsOptions
from sandbox_skills.toolsets.workspace_tools.toolset import WorkspaceToolset
from sandbox_skills.workspace.manager import Services, WorkspaceManager
from sandbox_skills.workspace.sessions import SessionManager
from sandbox_skills.workspace.staging import SkillStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from sandbox_skills.engines.fake_programs import Running
    from sandbox_skills.telemetry import AuditEvent

TENANT = "t"

SKILLS = {
    "csv-tools": "Reads and joins CSV tables.",
    "pdf-tools": "Fills PDF forms, and reads them.",
    "weather": "Tells the weather of a city.",
}


async def bash(run: Running) -> int:
    """A shell with words of its own: `put PATH TEXT`, `get PATH`, `stdin`, `repeat TEXT COUNT`, `cwd`, `fail PATH`."""
    match shlex.split(run.command.argv[-1]):
        case ["put", path, text]:
            run.files[run.path(path)] = text.encode().decode("unicode_escape").encode("latin-1")
        case ["get", path]:
            run.write(run.files[run.path(path)])
        case ["stdin"]:
            while data := await run.input.read():
                run.write(data)
        case ["repeat", text, count]:
            run.write(text.encode() * int(count))
        case ["cwd"]:
            run.write(str(run.command.cwd).encode())
        case ["fail", path]:
            run.files[run.path(path)] = b""
            run.write(b"no such program\n", "stderr")
            return 2
        case _:
            return await PROGRAMS["sh"](run)
    return 0


class Audit:
    def __init__(self) -> None:
        self.events: list[AuditEvent] = []

    def record(self, event: AuditEvent) -> None:
        self.events.append(event)


class World:
    """A toolbox with the workspace tools alone, and a conversation."""

    def __init__(
        self, toolset: WorkspaceToolset, runs: SkillRuns, artifacts: LocalArtifactStore, engine: FakeEngine
    ) -> None:
        self.toolset = toolset
        self.engine = engine
        self.runs = runs
        self.artifacts = artifacts
        self.toolbox = Toolbox([toolset], policy=runs.policy, canonical=runs.skills.canonical)
        self.conversation = Conversation("c", TENANT)

    async def call(self, tool: str, conversation: Conversation | None = None, **arguments: Any) -> ToolResult:  # noqa: ANN401  # as a model gives them
        return await self.toolbox.call(ToolCall(tool, arguments, "call-1"), conversation or self.conversation)

    async def told(self, tool: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401
        """Returns the object that a call is answered with."""
        result = await self.call(tool, **arguments)
        assert isinstance(result.content, dict), result
        return result.content

    async def error(self, tool: str, **arguments: Any) -> str:  # noqa: ANN401
        """Returns the text that a call is refused with."""
        result = await self.call(tool, **arguments)
        assert (result.status, result.is_error) == ("rejected", True)
        assert isinstance(result.content, str)
        assert result.state_delta == {}
        return result.content

    async def run(self, command: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401
        """Returns what a command of a skill that is loaded is told."""
        await self.call("skill_load", skill="csv-tools")
        return await self.told("skill_run", skill="csv-tools", command=command, **arguments)


@pytest.fixture
def skills(tmp_path: Path) -> Path:
    for name, description in SKILLS.items():
        folder = tmp_path / "skills" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(
            f"---\nname: {name}\ndescription: {description}\n---\nThe body of {name}.\n"
        )
    docs = tmp_path / "skills" / "csv-tools"
    (docs / "docs").mkdir()
    (docs / "USAGE.md").write_text("How to use it.")
    (docs / "docs" / "joins.txt").write_text("How to join.")
    (docs / "run.py").write_text("print(1)")
    return tmp_path / "skills"


@pytest.fixture
def open_world(tmp_path: Path, skills: Path) -> Callable[..., AbstractAsyncContextManager[World]]:
    @asynccontextmanager
    async def opened(policy: Policy | None = None, **options: Any) -> AsyncIterator[World]:  # noqa: ANN401  # as options
        saves, secrets = options.pop("saves", True), options.pop("secrets", {})
        artifacts = LocalArtifactStore(tmp_path / "artifacts")
        engine = FakeEngine({"bash": bash})
        manager = WorkspaceManager(
            engine,
            SkillStore(tmp_path / "store"),
            spec=SandboxSpec(needs=frozenset()),
            services=Services(artifacts if saves else None),
        )
        async with SessionManager(manager) as sessions:
            offered = OfferedSkills(Catalog([SkillRoot(str(skills))]))
            runs = SkillRuns(offered, sessions, policy or Policy(), secrets)
            toolset = WorkspaceToolset(
                runs, options=WorkspaceToolsOptions(**options), artifacts=artifacts if saves else None
            )
            yield World(toolset, runs, artifacts, engine)

    return opened


@pytest.fixture
async def world(open_world: Callable[..., AbstractAsyncContextManager[World]]) -> AsyncIterator[World]:
    async with open_world() as one:
        yield one
