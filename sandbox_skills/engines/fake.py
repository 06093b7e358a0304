"""An engine in memory: no process, no isolation, no files. For tests of what stands on an engine, and for dry runs.

It knows a handful of programs, written in Python, and takes more. It keeps every promise of `base.py` that needs no
kernel, and claims no guarantee: a spec with needs is refused unless the caller takes them out.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from sandbox_skills.engines.arguments import below_workspace, check_command
from sandbox_skills.engines.base import EngineReport
from sandbox_skills.engines.cancellation import finish
from sandbox_skills.engines.globs import Glob
from sandbox_skills.errors import (
    EngineError,
    GuaranteeError,
    InputError,
    SandboxLostError,
    WorkspaceFullError,
)
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
        Awaitable,
        Callable,
        Mapping,
        Sequence,
    )
    from collections.abc import (
        Collection as AbstractCollection,
    )
    from pathlib import PurePosixPath

    from sandbox_skills.engines.base import FileSink, OutputSink, Sandbox
    from sandbox_skills.spec import CollectLimits, Command, SandboxSpec


class _OutputLimitError(Exception):
    """The program wrote more than a run may; ends it from within its own write."""


class _KilledError(Exception):
    """The program killed itself by a signal."""

    def __init__(self, signal: int) -> None:
        super().__init__(signal)
        self.signal = signal


@dataclass(slots=True)
class Running:
    """What a program of the fake engine sees."""

    command: Command
    files: dict[PurePosixPath, bytes]
    limits: Limits
    on_output: OutputSink | None
    kept: dict[str, bytearray] = field(default_factory=lambda: {"stdout": bytearray(), "stderr": bytearray()})
    total: dict[str, int] = field(default_factory=lambda: {"stdout": 0, "stderr": 0})

    def write(self, data: bytes, stream: Literal["stdout", "stderr"] = "stdout") -> None:
        """Writes to a stream of the program."""
        self.total[stream] += len(data)
        cap = self.limits.stdout_bytes if stream == "stdout" else self.limits.stderr_bytes
        self.kept[stream] += data[: max(0, cap - len(self.kept[stream]))]
        if self.on_output is not None:
            self.on_output(stream, data)
        if sum(self.total.values()) > self.limits.output_bytes:
            raise _OutputLimitError

    def path(self, text: str) -> PurePosixPath:
        """Returns a path below the workspace, as the command's directory reads it."""
        return (self.command.cwd / text).relative_to(WORKSPACE)


if TYPE_CHECKING:
    Program = Callable[[Running], Awaitable[int]]
    """Returns the exit code."""


class FakeEngine:
    """Makes fake sandboxes. `programs` maps the last part of argv[0] to what it does."""

    def __init__(self, programs: Mapping[str, Program] | None = None) -> None:
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
        sandbox = FakeSandbox(SandboxId(f"fake-{next(self._ids)}"), spec, self._programs)
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

    def __init__(self, sandbox_id: SandboxId, spec: SandboxSpec, programs: Mapping[str, Program]) -> None:
        self.id = sandbox_id
        self._spec = spec
        self._programs = programs
        self._files: dict[PurePosixPath, bytes] = {}
        self._lost: asyncio.Event = asyncio.Event()
        self._running = False

    @property
    def alive(self) -> bool:
        return not self._lost.is_set()

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
        self._living()
        check_command(command)
        if self._running:
            raise EngineError(f"sandbox {self.id} runs another command already")
        running = Running(command, self._files, limits or Limits(), on_output)
        started = time.monotonic()
        self._running = True
        try:
            ending = await self._ending(running)
        finally:
            self._running = False
        return _outcome(running, ending, time.monotonic() - started)

    async def put(self, path: PurePosixPath, chunks: AsyncIterator[bytes], *, mode: int = 0o644) -> int:
        self._living()
        target = below_workspace(path)
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
        data = self._files.get(below_workspace(path))
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
            found.append(FoundFile(path, len(data), 0o644, truncated=take < len(data)))
            sink.begin(found[-1])
            sink.write(data[:take])
            sink.end()
        return Collection(tuple(found), frozenset(hit))

    async def _ending(self, running: Running) -> Ending:
        program = self._programs.get(running.command.argv[0].rpartition("/")[2], _not_found)
        task = asyncio.ensure_future(program(running))
        lost = asyncio.ensure_future(self._lost.wait())
        try:
            await asyncio.wait(
                [task, lost], timeout=running.limits.wall_seconds, return_when=asyncio.FIRST_COMPLETED
            )
            self._living()
            return _ended(task)
        finally:
            task.cancel()
            lost.cancel()
            await finish(_ended_all(task, lost))

    def _living(self) -> None:
        if self._lost.is_set():
            raise SandboxLostError(f"sandbox {self.id} was lost")


async def _ended_all(*tasks: asyncio.Future[Any]) -> None:
    await asyncio.wait(tasks)


def _ended(task: asyncio.Future[int]) -> Ending:
    if not task.done():
        return Stopped("wall_time")
    error = task.exception()
    if error is None:
        return Exited(task.result())
    if isinstance(error, _OutputLimitError):
        return Stopped("output")
    if isinstance(error, _KilledError):
        return Signalled(error.signal)
    raise error


def _outcome(running: Running, ending: Ending, seconds: float) -> Outcome:
    cut = {name: running.total[name] > len(running.kept[name]) for name in ("stdout", "stderr")}
    hit: list[LimitName] = [name for name in ("stdout", "stderr") if cut[name]]
    return Outcome(
        ending=ending,
        limits_hit=frozenset(hit),
        stdout=bytes(running.kept["stdout"]),
        stderr=bytes(running.kept["stderr"]),
        stdout_truncated=cut["stdout"],
        stderr_truncated=cut["stderr"],
        stdout_bytes=running.total["stdout"],
        stderr_bytes=running.total["stderr"],
        wall_seconds=seconds,
    )


async def _not_found(run: Running) -> int:
    run.write(f"{run.command.argv[0]}: command not found\n".encode(), "stderr")
    return 127


async def _true(_run: Running) -> int:
    return 0


async def _false(_run: Running) -> int:
    return 1


async def _echo(run: Running) -> int:
    run.write(" ".join(run.command.argv[1:]).encode() + b"\n")
    return 0


async def _cat(run: Running) -> int:
    if len(run.command.argv) == 1:
        run.write(run.command.stdin or b"")
    for name in run.command.argv[1:]:
        data = run.files.get(run.path(name))
        if data is None:
            run.write(f"cat: {name}: No such file or directory\n".encode(), "stderr")
            return 1
        run.write(data)
    return 0


async def _tee(run: Running) -> int:
    data = run.command.stdin or b""
    run.write(data)
    for name in run.command.argv[1:]:
        run.files[run.path(name)] = data
    return 0


async def _cp(run: Running) -> int:
    """Copies a file or folder as `cp -RPT` does; the options are taken as given."""
    source, target = (run.path(name) for name in run.command.argv[-2:])
    copies = {
        target / path.relative_to(source): data
        for path, data in run.files.items()
        if path.is_relative_to(source)
    }
    if not copies:
        run.write(f"cp: cannot stat '{run.command.argv[-2]}': No such file or directory\n".encode(), "stderr")
        return 1
    run.files.update(copies)
    return 0


async def _rm(run: Running) -> int:
    """Removes a file as `rm -f` does; the options are taken as given."""
    path = run.path(run.command.argv[-1])
    run.files.pop(path, None)
    return 1 if any(other.is_relative_to(path) for other in run.files) else 0


async def _sleep(run: Running) -> int:
    await asyncio.sleep(float(run.command.argv[1]))
    return 0


async def _printenv(run: Running) -> int:
    value = run.command.env.get(run.command.argv[1])
    if value is not None:
        run.write(value.encode() + b"\n")
    return 0 if value is not None else 1


async def _yes(run: Running) -> int:
    while True:
        run.write(b"y\n" * 4096)
        await asyncio.sleep(0)


async def _sh(run: Running) -> int:
    """Knows `exit N` and `kill -N $$`: as much shell as the contract asks of an engine."""
    words = run.command.argv[-1].split()
    match words:
        case ["exit", code]:
            return int(code)
        case ["kill", signal, "$$"]:
            raise _KilledError(int(signal.lstrip("-")))
        case _:
            run.write(b"sh: the fake engine has no shell\n", "stderr")
            return 127


PROGRAMS: Mapping[str, Program] = {
    "true": _true,
    "false": _false,
    "echo": _echo,
    "cat": _cat,
    "tee": _tee,
    "cp": _cp,
    "rm": _rm,
    "sleep": _sleep,
    "printenv": _printenv,
    "yes": _yes,
    "sh": _sh,
}
"""What every fake box has. A real box has the image's programs of these names, and the contract compares them."""
