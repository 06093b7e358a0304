"""A box on the real engine, and a way to run functions of a test in it.

Nothing here is skipped where Docker is missing: the tests then fail, because isolation that was not tried is not
known to hold.
"""

from __future__ import annotations

import inspect
import json
import textwrap
from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeVar

import pytest

from sandbox_skills.spec import Command, Limits, Outcome, SandboxSpec
from sandbox_skills.workspace.layout import run_environment
from sandbox_skills.workspace.manager import WorkspaceManager
from sandbox_skills.workspace.outputs import MemorySink

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from sandbox_skills.engines.base import Engine, OutputSink, Sandbox
    from sandbox_skills.spec import Collection, CollectLimits
    from sandbox_skills.workspace.staging import SkillStore

P = ParamSpec("P")
T = TypeVar("T")

INSIDE = Path(__file__).with_name("inside.py")

LIBRARY = PurePosixPath("home/library")
"""Where a box has `inside.py`, as the module that it is for the type checkers too."""

ENVIRONMENT = {
    **run_environment(None, skill_name="", run_id="test"),
    "PYTHONPATH": f"/workspace/{LIBRARY}",
}


class Box:
    """One sandbox, and what a test does with it."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox

    @property
    def name(self) -> str:
        """What the daemon knows the container by."""
        return self.sandbox.id

    async def run(
        self, command: Command, *, limits: Limits | None = None, on_output: OutputSink | None = None
    ) -> Outcome:
        return await self.sandbox.run(command, limits=limits or Limits(wall_seconds=15), on_output=on_output)

    async def shell(self, text: str, *, limits: Limits | None = None) -> Outcome:
        """Runs a line of bash."""
        return await self.run(Command(("bash", "-c", text), env=ENVIRONMENT), limits=limits)

    @staticmethod
    def program(function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> Command:
        """Returns a command that calls a self-contained function and prints what it returns, as JSON."""
        assert not kwargs, "arguments travel as a JSON list"
        source = textwrap.dedent(inspect.getsource(function))
        call = f"print(json.dumps({function.__name__}(*json.loads(sys.argv[1]))), flush=True)"
        text = f"from __future__ import annotations\nimport json, sys\n{source}\n{call}\n"
        return Command(("python3", "-c", text, json.dumps(args)), env=ENVIRONMENT)

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs a function in the box and returns what it returned, which must survive JSON."""
        outcome = await self.run(self.program(function, *args, **kwargs))
        assert outcome.ok, (outcome.ending, outcome.stderr.decode(errors="replace"))
        result: T = json.loads(outcome.stdout)
        return result

    async def collect(self, *patterns: str, limits: CollectLimits) -> tuple[dict[str, bytes], Collection]:
        """Returns the bytes of each file by its path, and what else the collection tells."""
        sink = MemorySink()
        collection = await self.sandbox.collect(patterns, limits, sink)
        return {str(file.path): file.data or b"" for file in sink.files}, collection


class OpenBox(Protocol):
    """Opens a box of its own for a test."""

    def __call__(self, spec: SandboxSpec | None = None) -> AbstractAsyncContextManager[Box]: ...


async def library() -> AsyncIterator[bytes]:
    yield INSIDE.read_bytes()


@asynccontextmanager
async def opened(engine: Engine, spec: SandboxSpec | None) -> AsyncIterator[Box]:
    async with engine.open(spec or SandboxSpec()) as sandbox:
        await sandbox.put(LIBRARY / "tests" / "security" / INSIDE.name, library())
        yield Box(sandbox)


@pytest.fixture(scope="session", params=["docker_engine", "attached_engine"])
def open_box(request: pytest.FixtureRequest) -> OpenBox:
    """Opens boxes that are spoken to over a socket, then over the attached stream: isolation is the same."""
    engine: Engine = request.getfixturevalue(request.param)
    return lambda spec=None: opened(engine, spec)


@pytest.fixture(scope="module")
async def box(open_box: OpenBox) -> AsyncIterator[Box]:
    """One box for all tests of a file: what they try must fail, so that it is the same afterwards."""
    async with open_box() as shared:
        yield shared


@pytest.fixture(scope="module")
async def neighbour(open_box: OpenBox) -> AsyncIterator[Box]:
    """Another box beside it."""
    async with open_box() as other:
        yield other


@pytest.fixture(scope="session")
def manager(docker_engine: Engine, store: SkillStore) -> WorkspaceManager:
    return WorkspaceManager(docker_engine, store)


@pytest.fixture(scope="session")
def samples() -> Path:
    """The sample skills."""
    return Path(__file__).parents[2] / "skills"
