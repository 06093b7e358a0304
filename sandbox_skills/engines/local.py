"""The local engine: the runner as a plain process of this user. It isolates nothing, and guarantees nothing.

For skills that are the user's own. A box is a directory that goes with it; whatever a program does elsewhere stays.
"""

from __future__ import annotations

import asyncio
import platform
import secrets
import shutil
import socket
import subprocess
import sys
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio.to_thread

from sandbox_skills.directories import make_private, owned_directory, sweep_owned
from sandbox_skills.engines.base import EngineReport
from sandbox_skills.engines.cancellation import finish
from sandbox_skills.engines.channel import StreamProtocol
from sandbox_skills.engines.classify import Death
from sandbox_skills.engines.client import RunnerClient
from sandbox_skills.engines.image_source import read_sources
from sandbox_skills.engines.local_paths import HostPaths, staged_names
from sandbox_skills.errors import EngineError, GuaranteeError
from sandbox_skills.spec import WORKSPACE, Guarantee, SandboxId

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path, PurePosixPath

    from sandbox_skills.engines.base import FileSink, OutputSink, Process, Sandbox
    from sandbox_skills.spec import Collection as Collected
    from sandbox_skills.spec import CollectLimits, Command, Limits, Outcome, SandboxSpec, TerminalSize

PREFIX = "box-"

PROGRAMS = "programs"
"""The folder of a box that has what others have in /opt/sandbox-skills."""

HELLO_SECONDS = 30.0
"""From the start to the runner's first word: 30 ms alone."""

END_SECONDS = 10.0
"""How long a runner may take to end what it started: it gives up after 5 s itself."""

NOTHING = "the engine local isolates nothing"


@dataclass(frozen=True, slots=True)
class LocalEngineOptions:
    """Where boxes have their directories, and where staged skills are."""

    data_dir: Path
    skills_dir: Path | None = None
    concurrent_runs: int = 1


class LocalEngine:
    """Boxes that are none. Choosing it is the user's word, which `settings` asks for twice."""

    def __init__(self, options: LocalEngineOptions) -> None:
        self._options = options
        self._folder = options.data_dir / "local"

    @property
    def guarantees(self) -> frozenset[Guarantee]:
        """Nothing."""
        return frozenset()

    async def probe(self) -> EngineReport:
        return EngineReport(
            engine="local",
            version=platform.python_version(),
            lost={str(name): NOTHING for name in Guarantee},
        )

    @asynccontextmanager
    async def open(self, spec: SandboxSpec) -> AsyncGenerator[Sandbox]:
        if spec.needs:
            missing = sorted(map(str, spec.needs))
            raise GuaranteeError(
                f"{NOTHING}, and the sandbox needs {', '.join(missing)}",
                hint="use --engine docker",
                lost=missing,
            )
        with ExitStack() as stack:
            place = await anyio.to_thread.run_sync(self._place, stack)
            box = _Box(place, self._options)
            try:
                await box.start()
                yield box.sandbox
            finally:
                await finish(box.end())

    async def reap(self, keep: Collection[SandboxId]) -> list[SandboxId]:
        # A box's processes end with their runner, and that with its channel: what a dead owner leaves is a directory.
        swept = await anyio.to_thread.run_sync(sweep_owned, self._folder, PREFIX)
        return [SandboxId(name) for name in swept]

    async def aclose(self) -> None:
        """Nothing is held."""

    def _place(self, stack: ExitStack) -> Path:
        try:
            make_private(self._folder)
            place = stack.enter_context(owned_directory(self._folder, PREFIX))
            read_sources("slim").install(place / PROGRAMS)
        except OSError as error:
            raise EngineError(f"no directory for a sandbox can be made in {self._folder}: {error}") from error
        return place


class _Box:
    """One runner and its directory."""

    def __init__(self, place: Path, options: LocalEngineOptions) -> None:
        paths = HostPaths(
            place / "workspace", place / "skills", place / "tmp", handlers=place / PROGRAMS / "handlers"
        )
        for path in (paths.workspace, paths.skills, paths.tmp):
            path.mkdir()
        self._paths = paths
        self._runner = place / PROGRAMS / "runner.py"
        self._process: subprocess.Popen[bytes] | None = None
        client = RunnerClient(
            SandboxId(f"sandbox-{secrets.token_hex(8)}"),
            post_mortem=self._post_mortem,
            concurrent_runs=options.concurrent_runs,
        )
        self.sandbox = LocalSandbox(client, paths, options.skills_dir)

    async def start(self) -> None:
        client = self.sandbox.client
        ours, theirs = socket.socketpair()
        with theirs:
            _, channel = await asyncio.get_running_loop().create_connection(
                lambda: StreamProtocol(client.link.received, client.link.lost), sock=ours
            )
            client.link.connect(channel)
            self._process = _started(self._runner, self._paths, theirs)
        await client.hello(HELLO_SECONDS)

    async def end(self) -> None:
        """Ends the runner, and with it what it started."""
        self.sandbox.client.close()
        if self._process is not None:
            await anyio.to_thread.run_sync(self._wait, self._process)

    @staticmethod
    def _wait(process: subprocess.Popen[bytes]) -> None:
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    async def _post_mortem(self) -> Death:
        return Death(oom=False, exit_code=None)


def _started(runner: Path, paths: HostPaths, channel: socket.socket) -> subprocess.Popen[bytes]:
    where = ("--workspace", str(paths.workspace), "--skills", str(paths.skills))
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", "-X", "utf8", str(runner), *where],
            stdin=channel.fileno(),
            stdout=channel.fileno(),
            cwd="/",
            env={},
            start_new_session=True,
        )
    except OSError as error:
        raise EngineError(f"the runner cannot be started: {error}") from error


class LocalSandbox:
    """A sandbox whose directories have other names: what is handed over is renamed on the way.

    A staged skill is copied beside the workspace when it is first spoken of, so that its links lead there, and so that
    a program which writes into its skill does not write into the store.
    """

    def __init__(self, client: RunnerClient, paths: HostPaths, store: Path | None) -> None:
        self.client = client
        self._paths = paths
        self._store = store
        self._copying = asyncio.Lock()

    @property
    def id(self) -> SandboxId:
        return self.client.id

    @property
    def alive(self) -> bool:
        return self.client.alive

    @property
    def seccomp(self) -> str:
        return self.client.seccomp

    async def ping(self) -> float:
        return await self.client.ping()

    async def run(
        self, command: Command, *, limits: Limits | None = None, on_output: OutputSink | None = None
    ) -> Outcome:
        return await self.client.run(await self._here(command), limits=limits, on_output=on_output)

    @asynccontextmanager
    async def start(
        self,
        command: Command,
        *,
        limits: Limits | None = None,
        tty: TerminalSize | None = None,
        on_output: OutputSink | None = None,
    ) -> AsyncGenerator[Process]:
        here = await self._here(command)
        async with self.client.start(here, limits=limits, tty=tty, on_output=on_output) as process:
            yield process

    async def prepare(
        self,
        *,
        dirs: Sequence[PurePosixPath] = (),
        links: Mapping[PurePosixPath, PurePosixPath] | None = None,
    ) -> None:
        targets = links or {}
        await self._copied(map(str, targets.values()))
        await self.client.prepare(
            dirs=dirs, links={path: self._paths.path(target) for path, target in targets.items()}
        )

    async def put(self, path: PurePosixPath, chunks: AsyncIterator[bytes], *, mode: int = 0o644) -> int:
        return await self.client.put(path, chunks, mode=mode)

    def get(
        self, path: PurePosixPath, *, max_bytes: int
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self.client.get(path, max_bytes=max_bytes)

    async def collect(self, patterns: Sequence[str], limits: CollectLimits, sink: FileSink) -> Collected:
        return await self.client.collect(patterns, limits, sink)

    async def _here(self, command: Command) -> Command:
        await self._copied((*command.argv, *command.env.values(), str(command.cwd)))
        return self._paths.command(command)

    async def _copied(self, texts: Iterable[str]) -> None:
        names = staged_names(texts)
        if not names or self._store is None:
            return
        async with self._copying:  # requests overlap, and the second is not to see half a copy
            await anyio.to_thread.run_sync(_copy_skills, self._store, names, self._paths)


def _copy_skills(store: Path, names: Iterable[str], paths: HostPaths) -> None:
    for name in names:
        target = paths.skills / name
        if target.exists() or not (store / name).is_dir():
            continue
        try:
            shutil.copytree(store / name, target, symlinks=True)
            _lead_here(target, paths)
        except (OSError, shutil.Error) as error:
            raise EngineError(f"a staged skill cannot be copied: {error}") from error


def _lead_here(skill: Path, paths: HostPaths) -> None:
    """Has the links in the root of a skill lead to this box's workspace."""
    skill.chmod(0o700)
    for entry in skill.iterdir():
        if entry.is_symlink() and (target := entry.readlink()).is_relative_to(WORKSPACE):
            entry.unlink()
            entry.symlink_to(paths.text(str(target)))
