"""The host's end of the runner's channel: the `Sandbox` of every engine that can give a byte stream."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from sandbox_skills.engines.arguments import below_workspace, check_command, check_terminal
from sandbox_skills.engines.collecting import CollectRequest
from sandbox_skills.engines.link import Link, Patience
from sandbox_skills.engines.process import RunnerProcess
from sandbox_skills.engines.requests import Answer, GetRequest, PutRequest, RunRequest
from sandbox_skills.engines.wire import PROTOCOL, Kind
from sandbox_skills.errors import EngineError, RunnerProtocolError, SandboxLostError
from sandbox_skills.spec import Collection, Limits

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterator,
        Awaitable,
        Callable,
        Iterable,
        Mapping,
        Sequence,
    )
    from pathlib import PurePosixPath

    from sandbox_skills.engines.base import FileSink, OutputSink, Process
    from sandbox_skills.engines.classify import Death
    from sandbox_skills.spec import CollectLimits, Command, Outcome, SandboxId, TerminalSize

    BoxPath = PurePosixPath | str

ANSWER_SECONDS = 30.0
"""How long any answer but a run's may take; a loaded box answers a ping within milliseconds."""


class RunnerClient:
    """Speaks to one runner over `link`. Made before its box starts; usable once `hello` has returned."""

    def __init__(
        self,
        sandbox_id: SandboxId,
        *,
        post_mortem: Callable[[], Awaitable[Death]],
        concurrent_runs: int = 1,
        seccomp: str = "",
    ) -> None:
        self.id = sandbox_id
        self.seccomp = seccomp
        self.link = Link(sandbox_id)
        self._post_mortem = post_mortem
        self._concurrent_runs = concurrent_runs
        self._runs = 0

    @property
    def alive(self) -> bool:
        return self.link.alive

    def close(self) -> None:
        """Ends the channel; every request that waits raises SandboxLostError."""
        self.link.fail(SandboxLostError(f"sandbox {self.id} was closed"))

    async def hello(self, seconds: float) -> Mapping[str, Any]:
        """Returns the runner's first message; raises SandboxLostError when it does not come in time."""
        body = await self.link.answer(self.link.hello, Patience(seconds))
        if body.get("protocol") != PROTOCOL:
            raise self.link.fail(
                RunnerProtocolError(
                    f"the runner speaks another protocol than this version, which speaks {PROTOCOL}",
                    hint="sandbox-skills image build",
                )
            )
        return body

    async def facts(self, marker: str | None) -> Mapping[str, Any]:
        """Returns what the runner saw when it tried what must be blocked."""
        return await self._ask(Kind.FACTS, {"marker": marker}, Kind.FACTS_REPLY)

    async def ping(self) -> float:
        start = time.perf_counter()
        await self._ask(Kind.PING, b"", Kind.PONG)
        return time.perf_counter() - start

    async def prepare(
        self,
        *,
        dirs: Sequence[PurePosixPath] = (),
        links: Mapping[PurePosixPath, PurePosixPath] | None = None,
    ) -> None:
        await self._ask(Kind.PREPARE, _places(dirs, (links or {}).items()), Kind.DONE)

    async def run(
        self, command: Command, *, limits: Limits | None = None, on_output: OutputSink | None = None
    ) -> Outcome:
        fed = command.stdin is not None
        process = self._begun(command, limits or Limits(), on_output, fed=fed)
        try:
            if fed:
                process.close_stdin()
            return await process.wait()
        finally:
            await self._left(process)

    @asynccontextmanager
    async def start(
        self,
        command: Command,
        *,
        limits: Limits | None = None,
        tty: TerminalSize | None = None,
        on_output: OutputSink | None = None,
    ) -> AsyncGenerator[Process]:
        process = self._begun(command, limits or Limits(), on_output, tty=tty)
        try:
            yield process
        finally:
            await self._left(process)

    async def put(self, path: PurePosixPath, chunks: AsyncIterator[bytes], *, mode: int = 0o644) -> int:
        patience = Patience(ANSWER_SECONDS)
        body = {"path": below_workspace(path), "mode": mode}
        with self.link.asked(PutRequest()) as request:
            request.send(Kind.PUT, body)
            async for chunk in chunks:
                request.sent += len(chunk)
                await self.link.stream(Kind.CHUNK, request.ref, chunk, patience)
                if request.done:
                    break
            request.complete = True
            request.send(Kind.CHUNKS_END)
            return await self.link.answer(request, patience)

    @asynccontextmanager
    async def get(self, path: PurePosixPath, *, max_bytes: int) -> AsyncGenerator[AsyncIterator[bytes]]:
        patience = Patience(ANSWER_SECONDS, size=max_bytes)
        body = {"path": below_workspace(path), "max_bytes": max_bytes}
        with self.link.asked(GetRequest(max_bytes)) as request:
            request.send(Kind.GET, body)
            await self.link.waited(request.arrived(), patience)
            request.check()
            try:
                yield self._chunks(request, patience)
            finally:
                request.fail(EngineError(f"{path} is not being read any more"))

    async def collect(self, patterns: Sequence[str], limits: CollectLimits, sink: FileSink) -> Collection:
        if not patterns:
            return Collection()
        body = {
            "patterns": list(patterns),
            "files": limits.files,
            "file_bytes": limits.file_bytes,
            "total_bytes": limits.total_bytes,
        }
        patience = Patience(ANSWER_SECONDS, size=limits.total_bytes)
        with self.link.asked(CollectRequest(patterns, limits, sink)) as request:
            request.send(Kind.COLLECT, body)
            if sink.blocking:
                await self._carry_out(request, patience)
            return await self.link.answer(request, patience)

    async def _carry_out(self, request: CollectRequest, patience: Patience) -> None:
        """Writes files down while more of them come; the loop, which serves other boxes too, waits for no disk."""
        while True:
            await self.link.waited(request.arrived(), patience)
            if not await request.carried_out():
                return

    async def _ask(self, kind: Kind, body: bytes | Mapping[str, Any], reply: Kind) -> Mapping[str, Any]:
        with self.link.asked(Answer(reply)) as request:
            request.send(kind, body)
            return await self.link.answer(request, Patience(ANSWER_SECONDS))

    def _begun(
        self,
        command: Command,
        limits: Limits,
        on_output: OutputSink | None,
        *,
        fed: bool = True,
        tty: TerminalSize | None = None,
    ) -> RunnerProcess:
        """Starts a program, which is to be `_left`."""
        check_command(command)
        if tty is not None:
            check_terminal(tty)
        self._check_room()
        order = _order(command, limits, fed=fed, tty=tty, stream=on_output is not None)
        request = RunRequest(limits, on_output, command.record)
        process = RunnerProcess(self.link, request, limits, self._post_mortem)
        self.link.ask(request)
        self._runs += 1
        try:
            request.send(Kind.RUN, order)
            if command.stdin:
                request.stdin.feed(command.stdin)
        except BaseException:
            self._forget(process)
            raise
        return process

    def _check_room(self) -> None:
        """Raises EngineError where no program can be started now."""
        if not self.link.alive:
            # Whatever ended the box before is no outcome of this program.
            raise self.link.fail(SandboxLostError(f"sandbox {self.id} is gone"))
        if self._runs >= self._concurrent_runs:
            raise EngineError(
                f"sandbox {self.id} runs another command already",
                hint="the setting session.concurrent_runs allows more",
            )

    async def _left(self, process: RunnerProcess) -> None:
        """Returns when a program is gone, whatever cancels the caller."""
        try:
            await process.left()
        finally:
            self._forget(process)

    def _forget(self, process: RunnerProcess) -> None:
        process.forget()
        self._runs -= 1

    async def _chunks(self, request: GetRequest, patience: Patience) -> AsyncIterator[bytes]:
        while True:
            await self.link.waited(request.arrived(), patience)
            chunk = request.next()
            if chunk is None:
                return
            yield chunk


def _order(
    command: Command, limits: Limits, *, fed: bool, tty: TerminalSize | None, stream: bool
) -> dict[str, Any]:
    """Returns the payload of a RUN."""
    return {
        "argv": list(command.argv),
        "env": dict(command.env),
        "cwd": str(command.cwd),
        "stdin": "pipe" if fed else "none",
        "tty": None if tty is None else {"rows": tty.rows, "cols": tty.cols},
        "stream": stream,
        "places": _places(command.places.dirs, command.places.links.items()),
        **({"record": sorted(command.record)} if command.record else {}),
        **({"fork": True} if command.fork else {}),
        **({"look_into": below_workspace(command.look_into)} if command.look_into else {}),
        "limits": {
            "wall": limits.wall_seconds,
            "cpu": limits.cpu_seconds,
            "stdout": limits.stdout_bytes,
            "stderr": limits.stderr_bytes,
            "output": limits.output_bytes,
        },
    }


def _places(dirs: Iterable[BoxPath], links: Iterable[tuple[BoxPath, BoxPath]]) -> dict[str, Any]:
    """Returns what a PREPARE or a RUN says of places; raises PathEscapeError for one outside the workspace."""
    return {
        "dirs": [below_workspace(path) for path in dirs],
        "links": [[below_workspace(path), str(target)] for path, target in links],
    }
