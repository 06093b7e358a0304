"""A runner that lies, floods, stalls and hangs up: the host keeps to its memory, its time and its directories.

The runner is a process of its own, so that what this process takes of memory is the host's side alone.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.engines import client as client_module
from sandbox_skills.engines import process as process_module
from sandbox_skills.engines.bubblewrap import BubblewrapEngine, BubblewrapEngineOptions
from sandbox_skills.engines.bubblewrap import engine as engine_module
from sandbox_skills.engines.bubblewrap.cgroup import hierarchies
from sandbox_skills.engines.bubblewrap.leftovers import leftovers
from sandbox_skills.engines.channel import StreamProtocol
from sandbox_skills.engines.classify import Death
from sandbox_skills.engines.client import RunnerClient
from sandbox_skills.engines.fake import FakeEngine
from sandbox_skills.engines.wire import PROTOCOL
from sandbox_skills.errors import EngineError, GuaranteeError
from sandbox_skills.spec import KIB, MIB, CollectLimits, Command, Exited, Limits, SandboxId, SandboxSpec
from sandbox_skills.workspace.manager import RunRequest, Shell, WorkspaceManager
from tests.integration import hostile_runner
from tests.integration.hostile_runner import BEHAVIOURS, HELLOS, HONEST

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from sandbox_skills.workspace.manager import RunResult
    from sandbox_skills.workspace.staging import SkillStore

pytestmark = pytest.mark.anyio

SHORT = 0.3
"""Seconds that waits of the product are cut down to."""

LIMITS = Limits(wall_seconds=SHORT, stdout_bytes=64 * KIB, stderr_bytes=64 * KIB, output_bytes=MIB)
COLLECT = CollectLimits(files=1000, file_bytes=MIB, total_bytes=2 * MIB)

MOST_MEMORY = 24 * MIB
"""Beyond what there was: a stream that is cut at 128 KiB, a collection of 2 MiB, frames of 256 KiB, and their JSON."""

LONGEST_MESSAGE = 4000
"""Of characters: what a box says is quoted in part."""

PATIENCE = 10.0
"""Seconds after which the host hangs: ten times what it may wait."""


UNPROVED = {HONEST, "hello: without end", "hello: facts that are none"}
"""What keeps the protocol until the host looks at the box itself."""


SOURCE = Path(hostile_runner.__file__).read_text(encoding="utf-8")


class Hostile(FakeEngine):
    """An engine whose boxes have that runner."""

    def __init__(self, behaviour: str) -> None:
        super().__init__()
        self._behaviour = behaviour

    @asynccontextmanager
    async def open(self, spec: SandboxSpec) -> AsyncIterator[RunnerClient]:
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *(
                    sys.executable,
                    "-I",
                    "-S",
                    str(Path(hostile_runner.__file__)),
                    self._behaviour,
                    str(PROTOCOL),
                ),
                stdin=theirs.fileno(),
            )

        async def post_mortem() -> Death:
            return Death(oom=False, exit_code=None)

        client = RunnerClient(SandboxId("box"), post_mortem=post_mortem)
        _, channel = await asyncio.get_running_loop().create_connection(
            lambda: StreamProtocol(client.link.received, client.link.lost), sock=ours
        )
        client.link.connect(channel)
        try:
            await client.hello(2 * SHORT if self._behaviour.startswith("hello") else PATIENCE)
            yield client
        finally:
            client.close()
            await asyncio.wait_for(process.wait(), PATIENCE)  # it ends when its host has hung up


class Peak:
    """The most memory that this process had since, beyond what it had then. In bytes."""

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        self._before = self._most()

    def grown(self) -> int:
        return self._most() - self._before

    @staticmethod
    def _most() -> int:
        text = Path("/proc/self/status").read_text(encoding="ascii")
        return int(text.partition("VmHWM:")[2].split()[0]) * KIB


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "ANSWER_SECONDS", SHORT)
    monkeypatch.setattr(process_module, "STOP_SECONDS", SHORT)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with what nobody is to touch, and a skill."""
    for name in ("out", "skill"):
        (tmp_path / name).mkdir()
    (tmp_path / "skill" / "SKILL.md").write_text("x", encoding="utf-8")
    for name in ("outside", "canary"):
        (tmp_path / name).write_text("untouched", encoding="utf-8")
    return tmp_path


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def ran(place: Path, behaviour: str, store: SkillStore) -> RunResult:
    manager = WorkspaceManager(
        Hostile(behaviour),
        store,
        spec=SandboxSpec(needs=frozenset()),
        limits=LIMITS if behaviour != HONEST else Limits(),
    )
    request = RunRequest(Shell("true"), outputs=("out/**",), out_dir=place / "out", collect=COLLECT)
    return await manager.run(place / "skill", request, tenant="t")


async def test_an_honest_one_works_the_same_way(place: Path, store: SkillStore) -> None:
    result = await ran(place, HONEST, store)
    assert (result.outcome.ending, result.outcome.stdout) == (Exited(0), b"hi\n")
    assert files(place / "out") == {"out/a": b"bad"}


@pytest.mark.usefixtures("short_waits")
@pytest.mark.parametrize("behaviour", [name for name in BEHAVIOURS if name != HONEST])
async def test_the_host_stays_within_its_bounds(place: Path, store: SkillStore, behaviour: str) -> None:
    before = files(place)
    held = descriptors()
    peak, started, processor = Peak(), time.monotonic(), time.process_time()
    with pytest.raises(EngineError) as caught:
        await asyncio.wait_for(ran(place, behaviour, store), PATIENCE)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < LONGEST_MESSAGE
    took, grown = time.monotonic() - started, peak.grown()
    print(
        f"{behaviour}: {took:.2f} s, {time.process_time() - processor:.2f} s of processor, {grown >> 10} KiB"
    )
    assert took < PATIENCE
    assert grown < MOST_MEMORY
    out = {name: data for name, data in files(place).items() if name.startswith("out/")}
    assert {name: data for name, data in files(place).items() if name not in out} == before
    assert len(out) <= COLLECT.files
    assert sum(map(len, out.values())) <= COLLECT.total_bytes
    assert descriptors() <= held


@pytest.fixture(scope="module")
def trees(root_file_systems: Path) -> Iterator[Path]:
    """Root file systems as the engine wants them, by hard links, whose runner a test may replace."""
    with TemporaryDirectory(dir=root_file_systems.parent, prefix="hostile-") as place:
        subprocess.run(["cp", "-al", root_file_systems, f"{place}/rootfs"], check=True)
        yield Path(place, "rootfs")


async def compiled(engine: BubblewrapEngine, source: str) -> bytes:
    """Returns a program as the Python of a box compiles it."""
    text = "import py_compile, sys; sys.stdout.buffer.write(open(py_compile.compile('p.py', 'p.pyc'), 'rb').read())"
    command = Command(("python3", "-c", text), env={"PATH": "/usr/bin:/bin"})
    async with engine.open(SandboxSpec()) as sandbox:

        async def chunks() -> AsyncIterator[bytes]:
            yield source.encode()

        await sandbox.put(PurePosixPath("p.py"), chunks())
        outcome = await sandbox.run(command)
    assert outcome.ok, outcome
    return outcome.stdout


@pytest.mark.bubblewrap
@pytest.mark.root
@pytest.mark.parametrize("behaviour", [HONEST, *HELLOS])
async def test_a_box_with_such_a_runner_is_refused_and_leaves_nothing(
    trees: Path,
    bubblewrap_engine: BubblewrapEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    behaviour: str,
) -> None:
    given = f"import sys\nsys.argv[1:] = [{behaviour!r}, '{PROTOCOL}']\n"
    head, marker, rest = SOURCE.partition("from __future__ import annotations\n")
    options = BubblewrapEngineOptions(tmp_path, rootfs_dir=trees)
    runner = trees / options.wanted.name / "root/opt/sandbox-skills/runner.pyc"
    program = await compiled(bubblewrap_engine, f"{head}{marker}{given}{rest}")
    runner.unlink()  # a hard link: the file itself is everybody's
    runner.write_bytes(program)
    monkeypatch.setattr(engine_module, "HELLO_SECONDS", PATIENCE if behaviour in UNPROVED else 5 * SHORT)
    engine = BubblewrapEngine(options)
    started, peak = time.monotonic(), Peak()
    try:
        with pytest.raises(EngineError) as caught:
            async with engine.open(SandboxSpec()):
                pass
        # One that keeps the protocol is still believed nothing that it does not show.
        assert isinstance(caught.value, GuaranteeError) == (behaviour in UNPROVED)
        assert len(str(caught.value)) < LONGEST_MESSAGE
        assert time.monotonic() - started < PATIENCE
        assert peak.grown() < MOST_MEMORY
        mine = engine._instance
        assert mine is not None
        assert [box for box in leftovers(hierarchies()) if box.instance == mine.id] == []
    finally:
        await engine.aclose()
