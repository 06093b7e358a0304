"""The host's end of the runner's channel: the `Sandbox` of every engine that can give a byte stream."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from sandbox_skills.engines import classify
from sandbox_skills.engines.cancellation import finish
from sandbox_skills.engines.requests import CollectRequest, GetRequest, Request, RunRequest
from sandbox_skills.engines.wire import PROTOCOL, Decoder, Frame, Kind, encode, encode_chunks
from sandbox_skills.errors import CommandError, EngineError, PathEscapeError, RunnerProtocolError, SandboxLostError
from sandbox_skills.spec import WORKSPACE, Collection, Limits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from pathlib import PurePosixPath

    from sandbox_skills.engines.base import FileSink, OutputSink
    from sandbox_skills.engines.channel import Channel
    from sandbox_skills.engines.classify import Death
    from sandbox_skills.spec import CollectLimits, Command, Outcome, SandboxId

ANSWER_SECONDS = 30.0
"""How long any answer but a run's may take; a loaded box answers a ping within milliseconds."""

STOP_SECONDS = 10.0
"""How long after its wall limit, or after a cancel, a run may still be there before the box is given up.

The runner itself needs up to 5 s for a tree that will not die, and shares its CPU quota with that tree.
"""


class RunnerClient:
    """Speaks to one runner. Made before its box starts; usable once `hello` has returned."""

    def __init__(
        self,
        sandbox_id: SandboxId,
        *,
        post_mortem: Callable[[], Awaitable[Death]],
        concurrent_runs: int = 1,
    ) -> None:
        self.id = sandbox_id
        self._post_mortem = post_mortem
        self._concurrent_runs = concurrent_runs
        self._channel: Channel | None = None
        self._decoder = Decoder()
        self._last_ref = 0
        self._requests: dict[int, Request] = {}
        self._runs = 0
        self._fault: EngineError | None = None
        self._hello = Request(Kind.HELLO)
        self._requests[0] = self._hello

    # The receiver's side of the channel.

    def received(self, data: memoryview) -> None:
        if self._fault is not None:
            return
        try:
            for frame in self._decoder.feed(data):
                self._dispatch(frame)
        except RunnerProtocolError as error:
            self._break(error)
        except Exception as error:  # noqa: BLE001  # a sink's fault must not take the event loop with it
            self._break(EngineError(f"a sink of sandbox {self.id} failed: {error!r}"))

    def lost(self, reason: str) -> None:
        self._break(SandboxLostError(f"sandbox {self.id} was lost: {reason}"))

    def connect(self, channel: Channel) -> None:
        """Gives the client its channel; frames may have come before."""
        self._channel = channel
        if self._fault is not None:
            channel.close()

    def close(self) -> None:
        """Ends the channel; every request that waits raises SandboxLostError."""
        self._break(SandboxLostError(f"sandbox {self.id} was closed"))

    @property
    def alive(self) -> bool:
        return self._fault is None

    # The sandbox's side.

    async def hello(self, seconds: float) -> Mapping[str, Any]:
        """Returns the runner's first message; raises SandboxLostError when it does not come in time."""
        try:
            async with asyncio.timeout(seconds):
                body = await self._hello.done
        except TimeoutError as error:
            raise SandboxLostError(f"the runner of {self.id} did not answer in {seconds:g} s") from error
        if body.get("protocol") != PROTOCOL:
            raise RunnerProtocolError(
                f"the runner speaks protocol {body.get('protocol')!r}, this version speaks {PROTOCOL}",
                hint="sandbox-skills image build",
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
        body = {
            "dirs": [_relative(path) for path in dirs],
            "links": [[_relative(path), str(target)] for path, target in (links or {}).items()],
        }
        await self._ask(Kind.PREPARE, body, Kind.DONE)

    async def run(
        self, command: Command, *, limits: Limits | None = None, on_output: OutputSink | None = None
    ) -> Outcome:
        limits = limits or Limits()
        if not command.argv or not command.argv[0]:
            raise CommandError("the command is empty", hint="give a program and its arguments")
        if self._runs >= self._concurrent_runs:
            raise EngineError(f"sandbox {self.id} runs another command already")
        self._runs += 1
        request = RunRequest(limits, on_output)
        ref = self._open(request)
        started = time.monotonic()
        try:
            self._send_run(ref, command, limits, stream=on_output is not None)
            ended = await self._ending(ref, request, limits)
        except SandboxLostError as error:
            # A box that dies of a run is an outcome of the run; any other loss is raised.
            death = await self._post_mortem()
            return classify.box_died(
                death,
                error,
                stdout=request.kept("stdout"),
                stderr=request.kept("stderr"),
                wall_seconds=time.monotonic() - started,
            )
        finally:
            self._runs -= 1
            self._requests.pop(ref, None)
        if ended.get("clean") is not True:
            self._break(SandboxLostError(f"processes of a run in {self.id} would not die"))
        return classify.outcome(
            ended, limits=limits, stdout=request.kept("stdout"), stderr=request.kept("stderr")
        )

    async def put(self, path: PurePosixPath, chunks: AsyncIterator[bytes], *, mode: int = 0o644) -> int:
        request = Request(Kind.DONE)
        ref = self._open(request)
        try:
            self._send(Kind.PUT, ref, {"path": _relative(path), "mode": mode})
            async for chunk in chunks:
                for frame in encode_chunks(Kind.CHUNK, ref, chunk):
                    self._write(frame)
                await self._drain()
                if request.done.done():
                    break
            self._send(Kind.CHUNKS_END, ref)
            async with asyncio.timeout(ANSWER_SECONDS):
                body = await request.done
        except TimeoutError as error:
            raise self._break(SandboxLostError(f"the runner of {self.id} did not answer")) from error
        except BaseException:
            self._send(Kind.KILL, ref, {"reason": "cancelled"})
            raise
        finally:
            self._requests.pop(ref, None)
        size = body.get("size")
        if not isinstance(size, int):
            raise self._break(RunnerProtocolError("malformed DONE frame"))
        return size

    @asynccontextmanager
    async def get(self, path: PurePosixPath, *, max_bytes: int) -> AsyncIterator[AsyncIterator[bytes]]:
        ref = self._new_ref()
        request = GetRequest(max_bytes, lambda count: self._send(Kind.CREDIT, ref, {"bytes": count}))
        self._open(request, ref)
        try:
            self._send(Kind.GET, ref, {"path": _relative(path), "max_bytes": max_bytes})
            await request.opened()
            yield _chunks(request)
        finally:
            if not request.done.done():
                self._send(Kind.KILL, ref, {"reason": "cancelled"})
            else:
                self._requests.pop(ref, None)

    async def collect(self, patterns: Sequence[str], limits: CollectLimits, sink: FileSink) -> Collection:
        if not patterns:
            return Collection()
        ref = self._new_ref()
        request = CollectRequest(limits, sink, lambda count: self._send(Kind.CREDIT, ref, {"bytes": count}))
        self._open(request, ref)
        body = {
            "patterns": list(patterns),
            "files": limits.files,
            "file_bytes": limits.file_bytes,
            "total_bytes": limits.total_bytes,
        }
        try:
            self._send(Kind.COLLECT, ref, body)
            end = await request.done
        except asyncio.CancelledError:
            self._send(Kind.KILL, ref, {"reason": "cancelled"})
            raise
        finally:
            self._requests.pop(ref, None)
        return request.collection(end)

    # Below: how requests are kept.

    async def _ask(self, kind: Kind, body: bytes | Mapping[str, Any], reply: Kind) -> dict[str, Any]:
        request = Request(reply)
        ref = self._open(request)
        try:
            self._send(kind, ref, body)
            async with asyncio.timeout(ANSWER_SECONDS):
                return await request.done
        except TimeoutError as error:
            raise self._break(SandboxLostError(f"the runner of {self.id} did not answer")) from error
        finally:
            self._requests.pop(ref, None)

    def _send_run(self, ref: int, command: Command, limits: Limits, *, stream: bool) -> None:
        body = {
            "argv": list(command.argv),
            "env": dict(command.env),
            "cwd": str(command.cwd),
            "stdin": "none" if command.stdin is None else "pipe",
            "stream": stream,
            "limits": {
                "wall": limits.wall_seconds,
                "cpu": limits.cpu_seconds,
                "stdout": limits.stdout_bytes,
                "stderr": limits.stderr_bytes,
                "output": limits.output_bytes,
            },
        }
        self._send(Kind.RUN, ref, body)
        if command.stdin is not None:
            for frame in encode_chunks(Kind.STDIN, ref, command.stdin):
                self._write(frame)
            self._send(Kind.CLOSE_STDIN, ref)

    async def _ending(self, ref: int, request: RunRequest, limits: Limits) -> dict[str, Any]:
        try:
            async with asyncio.timeout(limits.wall_seconds + STOP_SECONDS):
                return await request.done
        except TimeoutError as error:
            raise self._break(SandboxLostError(f"a run in {self.id} did not end in time")) from error
        except asyncio.CancelledError:
            self._send(Kind.KILL, ref, {"reason": "cancelled"})
            await finish(self._killed(request))
            raise

    async def _killed(self, request: RunRequest) -> None:
        done, _ = await asyncio.wait([request.done], timeout=STOP_SECONDS)
        if not done:
            self._break(SandboxLostError(f"a cancelled run in {self.id} did not end"))

    def _open(self, request: Request, ref: int | None = None) -> int:
        if self._fault is not None:
            raise self._fault
        ref = self._new_ref() if ref is None else ref
        self._requests[ref] = request
        return ref

    def _send(self, kind: Kind, ref: int, body: bytes | Mapping[str, Any] = b"") -> None:
        self._write(encode(kind, ref, body))

    def _write(self, frame: bytes) -> None:
        if self._channel is not None and self._fault is None:
            self._channel.write(frame)

    async def _drain(self) -> None:
        if self._channel is not None:
            await self._channel.drain()

    def _dispatch(self, frame: Frame) -> None:
        request = self._requests.get(frame.ref)
        if request is None:
            # Late frames of a request whose caller has left; what was never asked for is a breach.
            if 0 < frame.ref <= self._last_ref:
                return
            raise RunnerProtocolError(f"{frame.kind.name} for a request that was never made")
        request.take(frame)
        if request.done.done():
            self._requests.pop(frame.ref, None)

    def _new_ref(self) -> int:
        self._last_ref += 1
        return self._last_ref

    def _break(self, fault: EngineError) -> EngineError:
        if self._fault is None:
            self._fault = fault
            if self._channel is not None:
                self._channel.close()
            requests, self._requests = list(self._requests.values()), {}
            for request in requests:
                request.fail(fault)
        return self._fault


async def _chunks(request: GetRequest) -> AsyncIterator[bytes]:
    while (chunk := await request.next()) is not None:
        yield chunk


def _relative(path: PurePosixPath) -> str:
    if path.is_absolute() and not path.is_relative_to(WORKSPACE):
        raise PathEscapeError(f"{path} is not inside the workspace")
    return str(path.relative_to(WORKSPACE)) if path.is_absolute() else str(path)
