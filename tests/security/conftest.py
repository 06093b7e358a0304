"""A box on the real engine, and a way to run functions of a test in it.

Nothing here is skipped where Docker is missing: the tests then fail, because isolation that was not tried is not
known to hold.
"""

from __future__ import annotations

import inspect
import json
import shutil
import textwrap
from collections.abc import Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeVar

import pytest

from sandbox_skills.engines.bubblewrap.cgroup import hierarchies
from sandbox_skills.engines.bubblewrap.leftovers import leftovers
from sandbox_skills.engines.bubblewrap.rootfs import Wanted
from sandbox_skills.engines.docker import DockerEngine, DockerEngineOptions
from sandbox_skills.engines.docker_client import DockerConnection
from sandbox_skills.engines.docker_config import GVISOR
from sandbox_skills.engines.image import image_tag
from sandbox_skills.spec import Command, Limits, Outcome, SandboxSpec
from sandbox_skills.workspace.layout import run_environment
from sandbox_skills.workspace.manager import WorkspaceManager
from sandbox_skills.workspace.outputs import MemorySink
from tests.own_daemon import OwnDaemon
from tests.security.engines import NATIVE, PARAMETERS
from tests.security.matrix import Matrix, Refused, summary, write
from tests.security.outside import Container, Namespaces, Outside

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator
    from contextlib import AbstractAsyncContextManager

    import docker
    from _pytest.python import CallSpec2 as CallSpec

    from sandbox_skills.engines.base import Engine, OutputSink, Sandbox
    from sandbox_skills.engines.bubblewrap import BubblewrapEngine
    from sandbox_skills.spec import Collection, CollectLimits, Guarantee
    from sandbox_skills.workspace.staging import SkillStore

MATRIX = Matrix()

collect_ignore = [] if shutil.which("runsc") else ["test_gvisor.py"]

Look = Callable[["Sandbox"], Outside]
"""Looks at a box from outside."""

P = ParamSpec("P")
T = TypeVar("T")

INSIDE = Path(__file__).with_name("inside.py")

LIBRARY = PurePosixPath("home/library")
"""Where a box has `inside.py`, as the module that it is for the type checkers too."""

ENVIRONMENT = {
    **run_environment(None, skill_name="", run_id="test"),
    "PYTHONPATH": f"/workspace/{LIBRARY}",
}


@dataclass(frozen=True, slots=True)
class Tried:
    """An engine under attack, by the name it has in the matrix. Of its boxes is demanded whatever it promises."""

    name: str
    engine: Engine
    needs: frozenset[Guarantee]
    look: Look


class Box:
    """One sandbox, and what a test does with it."""

    def __init__(self, sandbox: Sandbox, tried: Tried) -> None:
        self.sandbox = sandbox
        self.engine = tried.name
        self.outside = tried.look(sandbox)

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
async def opened(tried: Tried, spec: SandboxSpec | None) -> AsyncGenerator[Box]:
    demanded = replace(spec or SandboxSpec(), needs=tried.needs)
    async with tried.engine.open(demanded) as sandbox:
        await sandbox.put(LIBRARY / "tests" / "security" / INSIDE.name, library())
        yield Box(sandbox, tried)


@pytest.fixture(scope="session")
async def gvisor_engine(
    anyio_backend: object, gvisor: OwnDaemon, store: SkillStore, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[DockerEngine]:
    """The Docker engine with gVisor as its runtime."""
    engine = DockerEngine(
        DockerEngineOptions(
            data_dir=tmp_path_factory.mktemp("gvisor-data"),
            connection=DockerConnection(f"unix://{gvisor.socket}"),
            skills_dir=store.mount_dir,
            marker=store.marker(),
            runtime=GVISOR,
        )
    )
    yield engine
    await engine.aclose()


@pytest.fixture(scope="session")
def gvisor(daemon: docker.APIClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnDaemon]:
    """A daemon that has gVisor as a runtime. Its platform is ptrace: KVM is not everywhere."""
    folder = tmp_path_factory.mktemp("gvisor")
    runtime = folder / "runtime"
    runtime.write_text('#!/bin/sh\nexec runsc --platform=ptrace --network=none "$@"\n', encoding="ascii")
    runtime.chmod(0o755)
    own = OwnDaemon(folder, f"--add-runtime={GVISOR}={runtime}")
    try:
        own.load(daemon.get_image(image_tag("slim")))
        yield own
    finally:
        own.close()


@pytest.fixture(scope="session", params=[PARAMETERS[name] for name in NATIVE])
def engine_name(request: pytest.FixtureRequest) -> str:
    """Which engine is attacked, by its name in the matrix. A test may name fewer, as `only` does."""
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def engine(engine_name: str, request: pytest.FixtureRequest) -> Engine:
    found: Engine = request.getfixturevalue(f"{engine_name}_engine")
    return found


@pytest.fixture(scope="session")
def look(engine_name: str, request: pytest.FixtureRequest) -> Look:
    """Looks at a box of that engine from outside."""
    if engine_name == "bubblewrap":
        folder: Path = request.getfixturevalue("root_file_systems")
        return partial(Namespaces, folder / Wanted().name / "root")
    if engine_name == "gvisor":
        own: OwnDaemon = request.getfixturevalue("gvisor")
        return partial(Container, own.client)
    return partial(Container, request.getfixturevalue("daemon"))


@pytest.fixture(scope="session")
async def tried(engine: Engine, engine_name: str, look: Look) -> Tried:
    """The engine that is attacked, once it has looked at its host."""
    await engine.probe()
    return Tried(engine_name, engine, engine.guarantees, look)


@pytest.fixture(scope="session")
def open_box(tried: Tried) -> OpenBox:
    return lambda spec=None: opened(tried, spec)


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
def manager(tried: Tried, store: SkillStore) -> WorkspaceManager:
    return WorkspaceManager(tried.engine, store, spec=SandboxSpec(needs=tried.needs))


@pytest.fixture
def refused(request: pytest.FixtureRequest) -> Refused:
    """Tells the matrix what an engine does not promise."""
    return lambda guarantee: request.node.user_properties.append(("refused", guarantee))


@pytest.fixture(scope="session")
def canary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of the host that only isolation protects: everybody may write it."""
    file = tmp_path_factory.mktemp("host") / "canary"
    file.write_text("untouched", encoding="ascii")
    for path in (file, file.parent):
        path.chmod(0o777)
    return file


@pytest.fixture(autouse=True)
def host_untouched(request: pytest.FixtureRequest, canary: Path, store: SkillStore) -> Iterator[None]:
    """After each attack the host's file and its staged skills are as they were, and no box of bubblewrap's is left."""
    before = staged_bytes(store)
    ours = request.node.get_closest_marker("bubblewrap") is not None
    engine: BubblewrapEngine | None = request.getfixturevalue("bubblewrap_engine") if ours else None
    boxes = abandoned_boxes(engine)
    yield
    assert canary.read_text(encoding="ascii") == "untouched"
    assert [path.name for path in canary.parent.iterdir()] == ["canary"]
    after = staged_bytes(store)
    assert {path: after.get(path) for path in before} == before
    assert abandoned_boxes(engine) <= boxes


def staged_bytes(store: SkillStore) -> dict[str, bytes]:
    """Every staged file by its path."""
    return {str(path): path.read_bytes() for path in store.mount_dir.rglob("*") if path.is_file()}


def abandoned_boxes(engine: BubblewrapEngine | None) -> set[str]:
    """The boxes of this engine that have a cgroup and no process, so that nobody ends them."""
    if engine is None or engine._instance is None:
        return set()
    mine = [box for box in leftovers(hierarchies()) if box.instance == engine._instance.id]
    return {box.id for box in mine if not any(map(members, box.groups))}


def members(group: Path) -> list[str]:
    with suppress(OSError):
        return (group / "cgroup.procs").read_text(encoding="ascii").split()
    return []


@pytest.fixture(scope="session")
def samples() -> Path:
    """The sample skills."""
    return Path(__file__).parents[2] / "skills"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--matrix", type=Path, metavar="FILE", help="write what came of all attacks into a file")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tells the matrix whose test each is."""
    for item in items:
        if item.path.parent != Path(__file__).parent:
            continue
        marker = item.get_closest_marker("family")
        name = marker.args[0] if marker else item.path.stem.removeprefix("test_")
        item.user_properties.append(("family", name))
        callspec: CallSpec | None = getattr(item, "callspec", None)
        if callspec is not None and "engine_name" in callspec.params:
            item.user_properties.append(("engine", str(callspec.params["engine_name"])))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    MATRIX.add(report)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not MATRIX:
        return
    terminalreporter.section("attacks")
    missing = ["gVisor, as runsc is not installed"] if collect_ignore else []
    for line in summary(MATRIX, missing):
        terminalreporter.write_line(line)
    file: Path | None = config.getoption("--matrix", default=None)
    if file is not None and MATRIX.complete():
        write(file, MATRIX.table())
