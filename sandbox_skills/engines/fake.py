"""An engine in memory: no process, no isolation, no files. For tests of what stands on an engine, and for dry runs.

It knows a handful of programs, written in Python, and takes more. It keeps every promise of `base.py` that needs no
kernel, and claims no guarantee: a spec with needs is refused unless the caller takes them out.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import time
from contextlib import asynccontextmanager
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from sandbox_skills.engines.arguments import below_workspace, check_command, check_terminal
from sandbox_skills.engines.base import EngineReport
from sandbox_skills.engines.cancellation import finish
from sandbox_skills.engines.classify import at_character
from sandbox_skills.engines.fake_programs import PROGRAMS, KilledError, OutputLimitError, Running, not_found
from sandbox_skills.engines.globs import Glob
from sandbox_skills.errors import (
    EngineError,
    GuaranteeError,
    InputError,
    SandboxLostError,
    WorkspaceFullError,
)
from sandbox_skills.recording import Recording
from sandbox_skills.spec import (
    WORKSPACE,
    Collection,
    Ending,
    Exited,
    FoundFile,
    Guarantee,
    LimitName,
    Limits,
    Outcome,
    SandboxId,
    Signalled,
    Stopped,
)

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterator,
        Coroutine,
        Mapping,
        Sequence,
    )
    from collections.abc import (
        Collection as AbstractCollection,
    )

    from sandbox_skills.engines.base import FileSink, OutputSink, Process, Sandbox
    from sandbox_skills.engines.fake_programs import Program
    from sandbox_skills.spec import CollectLimits, Command, SandboxSpec, SignalName, TerminalSize


class FakeEngine:
    """Makes fake sandboxes. `programs` maps the last part of argv[0] to what it does."""

    def __init__(self, programs: Mapping[str, Program] | None = None, *, concurrent_runs: int = 1) -> None:
        self._concurrent_runs = concurrent_runs
        self._programs = {**PROGRAMS, **(programs or {})}
        self._ids = itertools.count(1)
        self.open_sandboxes: dict[SandboxId, FakeSandbox] = {}

    @property
    def guarantees(self) -> frozenset[Guarantee]:
        return frozenset()

    async def probe(self) -> EngineReport:
        lost = {str(name): "the fake engine isolates nothing" for name in Guarantee}
        return EngineReport(engine="fake", version="1", lost=lost)

    @asynccontextmanager
    async def open(self, spec: SandboxSpec) -> AsyncGenerator[Sandbox]:
        if spec.needs:
            raise GuaranteeError(
                "the fake engine enforces nothing",
                hint="use it with needs=frozenset()",
                lost=sorted(spec.needs),
            )
        sandbox_id = SandboxId(f"fake-{next(self._ids)}")
        sandbox = FakeSandbox(sandbox_id, spec, self._programs, concurrent_runs=self._concurrent_runs)
        self.open_sandboxes[sandbox.id] = sandbox
        try:
            yield sandbox
        finally:
            sandbox.lose()
            self.open_sandboxes.pop(sandbox.id, None)

    async def reap(self, keep: AbstractCollection[SandboxId]) -> list[SandboxId]:
        return []

    async def aclose(self) -> None:
        return None


class FakeSandbox:
    """One box in memory; `lose` is the fault that tests inject."""

    def __init__(
        self,
        sandbox_id: SandboxId,
        spec: SandboxSpec,
        programs: Mapping[str, Program],
        *,
        concurrent_runs: int = 1,
    ) -> None:
        self.id = sandbox_id
        self._spec = spec
        self._programs = programs
        self._files: dict[PurePosixPath, bytes] = {}
        self._lost: asyncio.Event = asyncio.Event()
        self._concurrent_runs = concurrent_runs
        self._runs = 0

    @property
    def alive(self) -> bool:
        return not self._lost.is_set()

    @property
    def seccomp(self) -> str:
        return ""

    def lose(self) -> None:
        """Loses the box, as a daemon that dies would."""
        self._lost.set()

    async def ping(self) -> float:
        self._living()
        return 0.0

    async def prepare(
        self,
        *,
        dirs: Sequence[PurePosixPath] = (),
        links: Mapping[PurePosixPath, PurePosixPath] | None = None,
    ) -> None:
        self._living()
        for path in (*dirs, *(links or {})):
            below_workspace(path)

    async def run(
        self, command: Command, *, limits: Limits | None = None, on_output: OutputSink | None = None
    ) -> Outcome:
        async with self.start(command, limits=limits, on_output=on_output) as process:
            process.close_stdin()
            return await process.wait()

    @asynccontextmanager
    async def start(
        self,
        command: Command,
        *,
        limits: Limits | None = None,
        tty: TerminalSize | None = None,
        on_output: OutputSink | None = None,
    ) -> AsyncGenerator[Process]:
        self._living()
        check_command(command)
        for path in (*command.places.dirs, *command.places.links):
            below_workspace(path)
        if tty is not None:
            check_terminal(tty)
        if self._runs >= self._concurrent_runs:
            raise EngineError(f"sandbox {self.id} runs another command already")
        running = Running(command, self._files, limits or Limits(), on_output, tty)
        running.input.fed.feed(command.stdin or b"")
        process = FakeProcess(running, self._outcome(running))
        self._runs += 1
        try:
            yield process
        finally:
            await finish(process.end())
            self._runs -= 1

    async def put(self, path: PurePosixPath, chunks: AsyncIterator[bytes], *, mode: int = 0o644) -> int:
        self._living()
        target = PurePosixPath(below_workspace(path))
        data = bytearray()
        async for chunk in chunks:
            data += chunk
            if len(data) + sum(map(len, self._files.values())) > self._spec.limits.workspace_bytes:
                raise WorkspaceFullError("no space left in the workspace")
        self._living()
        self._files[target] = bytes(data)
        return len(data)

    @asynccontextmanager
    async def get(self, path: PurePosixPath, *, max_bytes: int) -> AsyncGenerator[AsyncIterator[bytes]]:
        self._living()
        data = self._files.get(PurePosixPath(below_workspace(path)))
        if data is None:
            raise InputError(f"no such file: {path}")

        async def chunks() -> AsyncIterator[bytes]:
            if data:
                yield data[:max_bytes]

        yield chunks()

    async def collect(self, patterns: Sequence[str], limits: CollectLimits, sink: FileSink) -> Collection:
        self._living()
        globs = [Glob(pattern) for pattern in patterns]
        names = sorted(
            (path for path in self._files if any(glob.matches(str(path)) for glob in globs)),
            key=lambda path: str(path).encode(),
        )
        hit: set[LimitName] = set()
        found: list[FoundFile] = []
        left = limits.total_bytes
        for path in names:
            data = self._files[path]
            take = min(len(data), limits.file_bytes)
            if len(found) >= limits.files:
                hit.add("collected_files")
                break
            if take < len(data) or take > left:
                hit.add("collected_bytes")
            if take > left:
                continue
            left -= take
            found.append(FoundFile(str(path), len(data), 0o644, truncated=take < len(data)))
            sink.begin(found[-1])
            sink.write(data[:take])
            sink.end()
        return Collection(tuple(found), frozenset(hit))

    async def _outcome(self, running: Running) -> Outcome:
        started = time.monotonic()
        ending = await self._ending(running)
        return _outcome(running, ending, time.monotonic() - started)

    async def _ending(self, running: Running) -> Ending:
        program = self._programs.get(running.command.argv[0].rpartition("/")[2], not_found)
        task = asyncio.ensure_future(program(running))
        lost = asyncio.ensure_future(self._lost.wait())
        try:
            ends: list[asyncio.Future[Any]] = [task, lost, running.stopped]
            await asyncio.wait(ends, timeout=running.limits.wall_seconds, return_when=asyncio.FIRST_COMPLETED)
            self._living()
            return running.stopped.result() if running.stopped.done() else _ended(task)
        finally:
            running.input.fed.drop()
            task.cancel()
            lost.cancel()
            await finish(_ended_all(task, lost))

    def _living(self) -> None:
        if self._lost.is_set():
            raise SandboxLostError(f"sandbox {self.id} was lost")


class FakeProcess:
    """A program of a fake box under way."""

    def __init__(self, running: Running, work: Coroutine[Any, Any, Outcome]) -> None:
        self._running = running
        self._work = asyncio.ensure_future(work)

    async def write(self, data: bytes) -> bool:
        stdin = self._running.input.fed
        stdin.feed(data)
        await stdin.drained()
        return stdin.accepts

    def close_stdin(self) -> None:
        self._running.input.fed.close()

    def resize(self, size: TerminalSize) -> None:
        check_terminal(size)
        if self._running.tty is not None:
            self._running.tty = size

    def signal(self, name: SignalName) -> None:
        self._running.stop(Signalled(int(signal.Signals[f"SIG{name}"])))

    def kill(self) -> None:
        self._running.stop(Stopped("cancelled"))

    async def wait(self) -> Outcome:
        return await asyncio.shield(self._work)

    async def end(self) -> None:
        """Kills it, and returns when it is gone."""
        self.kill()
        await asyncio.wait([self._work])
        if not self._work.cancelled():
            self._work.exception()  # whoever wanted to hear of it has asked


async def _ended_all(*tasks: asyncio.Future[Any]) -> None:
    await asyncio.wait(tasks)


def _ended(task: asyncio.Future[int]) -> Ending:
    if not task.done():
        return Stopped("wall_time")
    error = task.exception()
    if error is None:
        return Exited(task.result())
    if isinstance(error, OutputLimitError):
        return Stopped("output")
    if isinstance(error, KilledError):
        return Signalled(error.signal)
    raise error


def _outcome(running: Running, ending: Ending, seconds: float) -> Outcome:
    cut = {name: running.total[name] > len(running.kept[name]) for name in ("stdout", "stderr")}
    hit: list[LimitName] = [name for name in ("stdout", "stderr") if cut[name]]
    return Outcome(
        ending=ending,
        limits_hit=frozenset(hit),
        stdout=at_character(bytes(running.kept["stdout"]), cut=cut["stdout"]),
        stderr=at_character(bytes(running.kept["stderr"]), cut=cut["stderr"]),
        stdout_truncated=cut["stdout"],
        stderr_truncated=cut["stderr"],
        stdout_bytes=running.total["stdout"],
        stderr_bytes=running.total["stderr"],
        wall_seconds=seconds,
        recording=Recording() if running.command.record else None,  # nothing is tried where nothing runs
        found_nothing=_holds_nothing(running),
    )


def _holds_nothing(running: Running) -> bool:
    directory = running.command.look_into
    return directory is not None and not any(
        (WORKSPACE / path).is_relative_to(directory) for path in running.files
    )
