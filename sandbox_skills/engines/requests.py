"""What the host remembers of each request until the box has answered it.

One class for each shape of answer. Frames of other kinds than a request expects are a breach of the protocol.
"""

from __future__ import annotations

import asyncio
from collections import deque
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

from sandbox_skills.engines.wire import ERROR_CODES, Frame, Kind
from sandbox_skills.errors import (
    EngineError,
    InputError,
    PathEscapeError,
    RunnerProtocolError,
    SandboxSkillsError,
    WorkspaceFullError,
)
from sandbox_skills.spec import Collection, CollectLimits, FoundFile, LimitName, Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sandbox_skills.engines.base import FileSink, OutputSink

MAX_SKIPPED = 100
"""As many skipped paths as one collection tells: the runner sends no more either."""

_REFUSALS: Mapping[str, type[SandboxSkillsError]] = {
    "not_found": InputError,
    "not_a_file": InputError,
    "not_a_directory": InputError,
    "not_permitted": PathEscapeError,
    "no_space": WorkspaceFullError,
    "no_inodes": WorkspaceFullError,
    "bad_request": EngineError,
    "busy": EngineError,
    "failed": EngineError,
}


def refusal(frame: Frame) -> SandboxSkillsError:
    """Returns the exception an ERROR frame stands for; its text is quoted, never believed."""
    body = frame.json()
    code, message = body.get("code"), body.get("message")
    if code not in ERROR_CODES or not isinstance(message, str):
        raise RunnerProtocolError("malformed ERROR frame")
    return _REFUSALS[code](message[:500])


class Request:
    """A request that ends with one JSON answer of kind `reply`."""

    def __init__(self, reply: Kind) -> None:
        self.reply = reply
        self.done: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

    def take(self, frame: Frame) -> None:
        """Takes one frame of this request; raises RunnerProtocolError for one that does not belong."""
        if frame.kind is self.reply:
            self.finish(frame)
        elif frame.kind is Kind.ERROR:
            self.fail(refusal(frame))
        else:
            self.part(frame)

    def part(self, frame: Frame) -> None:
        """Takes a frame that is not the last one."""
        raise RunnerProtocolError(f"{frame.kind.name} does not belong to its request")

    def finish(self, frame: Frame) -> None:
        """Takes the last frame."""
        if not self.done.done():
            self.done.set_result(frame.json())

    def fail(self, error: BaseException) -> None:
        """Ends the request with an exception, unless it has ended."""
        if not self.done.done():
            self.done.set_exception(error)
            self.done.exception()  # a caller that was cancelled meanwhile will not look at it


class RunRequest(Request):
    """A RUN: keeps the heads of both streams, counts nothing that the runner counts."""

    def __init__(self, limits: Limits, on_output: OutputSink | None) -> None:
        super().__init__(Kind.ENDED)
        self._kept = {"stdout": bytearray(), "stderr": bytearray()}
        self._caps = {"stdout": limits.stdout_bytes, "stderr": limits.stderr_bytes}
        # One pipe of slack: the runner reads a pipe empty before it sees that a cap was passed.
        self._budget = limits.output_bytes + limits.stdout_bytes + limits.stderr_bytes + 4 * 1024 * 1024
        self._on_output = on_output

    def part(self, frame: Frame) -> None:
        if frame.kind is Kind.STARTED:
            return
        if frame.kind is Kind.STDOUT:
            self._output("stdout", frame.payload)
        elif frame.kind is Kind.STDERR:
            self._output("stderr", frame.payload)
        else:
            super().part(frame)

    def kept(self, stream: Literal["stdout", "stderr"]) -> bytes:
        """The head of one stream, at most its limit."""
        return bytes(self._kept[stream])

    def _output(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        self._budget -= len(data)
        if self._budget < 0:
            raise RunnerProtocolError("the box sent more output than its limits allow")
        kept = self._kept[stream]
        kept += data[: self._caps[stream] - len(kept)]
        if self._on_output is not None:
            self._on_output(stream, data)


class GetRequest(Request):
    """A GET: a queue of chunks, bounded by the credit that reading grants."""

    def __init__(self, max_bytes: int, grant: Callable[[int], None]) -> None:
        super().__init__(Kind.END)
        self._chunks: deque[bytes] = deque()
        self._arrived = asyncio.Event()
        self._left = max_bytes
        self._grant = grant

    def part(self, frame: Frame) -> None:
        if frame.kind is not Kind.DATA:
            super().part(frame)
        self._left -= len(frame.payload)
        if self._left < 0:
            raise RunnerProtocolError("the box sent more of a file than it was asked for")
        self._chunks.append(frame.payload)
        self._arrived.set()

    def finish(self, frame: Frame) -> None:
        super().finish(frame)
        self._arrived.set()

    def fail(self, error: BaseException) -> None:
        super().fail(error)
        self._arrived.set()

    async def next(self) -> bytes | None:
        """Returns the next chunk, None at the end; raises what ended the request."""
        while not self._chunks:
            if self.done.done():
                self.done.result()
                return None
            self._arrived.clear()
            await self._arrived.wait()
        chunk = self._chunks.popleft()
        self._grant(len(chunk))
        return chunk

    async def opened(self) -> None:
        """Returns once the first chunk or the end is there; raises where there is no such file."""
        while not self._chunks and not self.done.done():
            self._arrived.clear()
            await self._arrived.wait()
        if self.done.done() and not self._chunks:
            self.done.result()


class CollectRequest(Request):
    """A COLLECT: files go to the sink as they come, and every cap is enforced here once more."""

    def __init__(self, limits: CollectLimits, sink: FileSink, grant: Callable[[int], None]) -> None:
        super().__init__(Kind.END)
        self._limits = limits
        self._sink = sink
        self._grant = grant
        self._files: list[FoundFile] = []
        self._left = 0
        self._total = limits.total_bytes
        self._open = False

    def part(self, frame: Frame) -> None:
        if frame.kind is Kind.FILE:
            self._next_file(frame.json())
        elif frame.kind is Kind.DATA:
            self._data(frame.payload)
        else:
            super().part(frame)

    def finish(self, frame: Frame) -> None:
        self._close_file()
        super().finish(frame)

    def collection(self, end: Mapping[str, Any]) -> Collection:
        """Returns what was taken, from the END payload and what was counted here."""
        hit, skipped = end.get("limits_hit", []), end.get("skipped", {})
        if not isinstance(hit, list) or not isinstance(skipped, dict):
            raise RunnerProtocolError("malformed END of a collection")
        names: tuple[LimitName, ...] = ("collected_files", "collected_bytes")
        limits_hit = {name for name in names if name in hit}
        if any(file.truncated for file in self._files):
            limits_hit.add("collected_bytes")
        return Collection(
            files=tuple(sorted(self._files, key=lambda file: str(file.path).encode())),
            limits_hit=frozenset(limits_hit),
            skipped={str(k)[:4096]: str(v)[:200] for k, v in list(skipped.items())[:MAX_SKIPPED]},
        )

    def _next_file(self, body: Mapping[str, Any]) -> None:
        self._close_file()
        file, take = _found(body)
        if len(self._files) >= self._limits.files or take > min(self._limits.file_bytes, self._total):
            raise RunnerProtocolError("the box sent more files or bytes than it was asked for")
        if any(file.path == known.path for known in self._files[-1:]):
            raise RunnerProtocolError("the box sent one file twice")
        self._files.append(file)
        self._left = take
        self._total -= take
        self._open = True
        self._sink.begin(file)

    def _data(self, data: bytes) -> None:
        self._left -= len(data)
        if not self._open or self._left < 0:
            raise RunnerProtocolError("the box sent more of a file than it announced")
        self._sink.write(data)
        self._grant(len(data))

    def _close_file(self) -> None:
        if self._open:
            self._open = False
            self._sink.end()


def _found(body: Mapping[str, Any]) -> tuple[FoundFile, int]:
    path, size, mode, take = (body.get(key) for key in ("path", "size", "mode", "take"))
    numbers = (size, mode, take)
    if not isinstance(path, str) or not all(isinstance(n, int) and 0 <= n < 1 << 62 for n in numbers):
        raise RunnerProtocolError("malformed FILE frame")
    assert isinstance(size, int)
    assert isinstance(mode, int)
    assert isinstance(take, int)
    return FoundFile(safe_relative(path), size, mode & 0o777, truncated=take < size), take


def safe_relative(text: str) -> PurePosixPath:
    """Returns a path that the box named; raises RunnerProtocolError unless it is relative and plain.

    The one rule of `workspace/paths.py` refuses the same; this one may not import upwards and needs no more.
    """
    path = PurePosixPath(text)
    parts = text.split("/")
    if not text or "\0" in text or len(text.encode(errors="surrogateescape")) > 4096:  # PATH_MAX
        raise RunnerProtocolError("a file name from the box is empty, too long or holds NUL")
    if any(part in {"", ".", ".."} for part in parts):
        raise RunnerProtocolError(f"a file name from the box leaves its place: {text[:200]!r}")
    return path
