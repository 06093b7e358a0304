"""What the host remembers of each request until the box has answered it.

One class for each shape of answer. Whatever does not belong to a request, or is more than it asked for, is a breach
of the protocol. Bytes are counted here as they come, whatever the box says it counted.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

from sandbox_skills.engines import classify
from sandbox_skills.engines.recorded import recording
from sandbox_skills.engines.stdin import Stdin
from sandbox_skills.engines.wire import ERROR_CODES, INITIAL_CREDIT, MAX_DATA, Frame, Kind, plain
from sandbox_skills.errors import (
    EngineError,
    InputError,
    PathEscapeError,
    RecorderError,
    RequestError,
    RunnerProtocolError,
    SandboxSkillsError,
    WorkspaceFullError,
)
from sandbox_skills.spec import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Protocol

    from sandbox_skills.engines.base import OutputSink
    from sandbox_skills.recording import Recorded
    from sandbox_skills.spec import Limits

    class Sender(Protocol):
        """Sends a frame of one request."""

        def __call__(self, kind: Kind, body: bytes | Mapping[str, Any] = b"", /) -> None: ...


T = TypeVar("T")

CREDIT_STEP = INITIAL_CREDIT // 4
"""Bytes that are granted at once: four messages for each filling of the window, and never an empty window."""

_REFUSALS: Mapping[str, type[SandboxSkillsError]] = {
    "not_found": InputError,
    "not_a_file": InputError,
    "not_a_directory": InputError,
    "not_permitted": PathEscapeError,
    "no_space": WorkspaceFullError,
    "no_inodes": WorkspaceFullError,
    "bad_request": RequestError,
    "busy": EngineError,
    "no_recorder": RecorderError,
    "failed": EngineError,
}


def refusal(frame: Frame) -> SandboxSkillsError:
    """Returns the exception an ERROR frame stands for; its text is quoted, never believed."""
    body = frame.json()
    code, message = body.get("code"), body.get("message")
    if not isinstance(code, str) or code not in ERROR_CODES or not isinstance(message, str):
        raise RunnerProtocolError("malformed ERROR frame")
    return _REFUSALS[code](plain(message))


class Request(ABC, Generic[T]):
    """A request that ends with one JSON answer of kind `reply`, or with an ERROR."""

    reply: Kind

    def __init__(self) -> None:
        self.ref = 0
        self.done = False
        self._answer: T | None = None
        self._fault: BaseException | None = None
        self.send: Sender = _send_nowhere
        self._sink_error: Exception | None = None
        self._owed = 0
        self._waiters: list[asyncio.Future[bool]] = []

    def take(self, frame: Frame) -> None:
        """Takes one frame of this request; raises RunnerProtocolError for one that does not belong."""
        if frame.kind is self.reply:
            self._settle(self.result(frame.json()))
        elif frame.kind is Kind.ERROR:
            self.fail(self._sink_error or refusal(frame))
        else:
            self.part(frame)

    def part(self, frame: Frame) -> None:
        """Takes a frame that is not the last one."""
        raise RunnerProtocolError(f"{frame.kind.name} does not belong to its request")

    @abstractmethod
    def result(self, body: Mapping[str, Any]) -> T:
        """Returns what the answer means; raises RunnerProtocolError where it cannot be true."""

    def fail(self, error: BaseException) -> None:
        """Ends the request with an exception, unless it has ended."""
        if not self.done:
            self._fault = error
            self.done = True
            self.ended()

    def answer(self) -> T:
        """Returns what the request that is done was answered; raises what ended it."""
        if self._fault is not None:
            raise self._fault
        return cast("T", self._answer)

    async def settled(self, seconds: float) -> bool:
        """Returns whether the request has ended, well or not, once it has or the time is over.

        A cancel leaves the request as it is. Every run waits here: with a task and a timer of asyncio's own the loop
        would take three more turns.
        """
        if self.done:
            return True
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        timer = loop.call_later(seconds, _wake, waiter, False)
        self._waiters.append(waiter)
        try:
            return await waiter
        finally:
            timer.cancel()
            self._waiters.remove(waiter)

    def ended(self) -> None:
        """Wakes whoever waits for the end."""
        for waiter in self._waiters:
            _wake(waiter, True)

    def _settle(self, result: T) -> None:
        if self._sink_error is not None:
            self.fail(self._sink_error)
        elif not self.done:
            self._answer = result
            self.done = True
            self.ended()

    def _deliver(self, sink: Callable[..., None], *args: object) -> None:
        """Calls the caller's sink, until it raises once: then the request is ended, and fails with that."""
        if self._sink_error is not None:
            return
        try:
            sink(*args)
        except Exception as error:  # noqa: BLE001  # the caller's own, given back to the caller
            self._sink_error = error
            self.send(Kind.KILL, {"reason": "cancelled"})

    def _grant(self, count: int) -> None:
        """Lets the box send as many bytes more."""
        self._owed += count
        if self._owed >= CREDIT_STEP:
            self.send(Kind.CREDIT, {"bytes": self._owed})
            self._owed = 0


def _wake(waiter: asyncio.Future[bool], ended: bool, /) -> None:  # noqa: FBT001  # call_later takes no keywords
    if not waiter.done():
        waiter.set_result(ended)


def _send_nowhere(kind: Kind, body: bytes | Mapping[str, Any] = b"", /) -> None:
    """What a request sends before it was made."""


class Answer(Request["Mapping[str, Any]"]):
    """A request whose answer is taken as it is."""

    def __init__(self, reply: Kind) -> None:
        super().__init__()
        self.reply = reply

    def result(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        return body


class PutRequest(Request[int]):
    """A PUT: its answer comes after the last byte and counts what was sent."""

    reply = Kind.DONE

    def __init__(self) -> None:
        super().__init__()
        self.sent = 0
        self.complete = False

    def result(self, body: Mapping[str, Any]) -> int:
        size = body.get("size")
        if not self.complete or isinstance(size, bool) or size != self.sent:
            raise RunnerProtocolError("the box says to have another file than was sent")
        return self.sent


class RunRequest(Request[Outcome]):
    """A RUN: keeps the heads of both streams, feeds `stdin`, and ends a box that sends more than its limits allow."""

    reply = Kind.ENDED

    def __init__(
        self, limits: Limits, on_output: OutputSink | None, record: frozenset[Recorded] = frozenset()
    ) -> None:
        super().__init__()
        self._limits = limits
        self._record = record
        self._kept = {"stdout": bytearray(), "stderr": bytearray()}
        self._caps = {"stdout": limits.stdout_bytes, "stderr": limits.stderr_bytes}
        allowed = sum(self._caps.values()) if on_output is None else limits.output_bytes
        self._left = allowed + MAX_DATA  # which the runner's own word on a command that cannot start may take
        self._on_output = on_output
        self._stdin: Stdin | None = None

    @property
    def stdin(self) -> Stdin:
        """What the program is given; most are given nothing, and make none."""
        if self._stdin is None:
            self._stdin = Stdin(lambda kind, data=b"", /: self.send(kind, data))
            if self.done:
                self._stdin.drop()
        return self._stdin

    def part(self, frame: Frame) -> None:
        match frame.kind:
            case Kind.STDOUT:
                self._output("stdout", frame.payload)
            case Kind.STDERR:
                self._output("stderr", frame.payload)
            case Kind.STDIN_CREDIT:
                self.stdin.grant(frame.json().get("bytes"))
            case Kind.STDIN_CLOSED:
                self.stdin.refused()
            case _:
                super().part(frame)

    def result(self, body: Mapping[str, Any]) -> Outcome:
        outcome = classify.outcome(
            body, limits=self._limits, stdout=self.kept("stdout"), stderr=self.kept("stderr")
        )
        return replace(outcome, recording=recording(body.get("record"))) if self._record else outcome

    def ended(self) -> None:
        if self._stdin is not None:
            self._stdin.drop()
        super().ended()

    def kept(self, stream: Literal["stdout", "stderr"]) -> bytes:
        """The head of one stream, at most its limit."""
        return bytes(self._kept[stream])

    def _output(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        self._left -= len(data)
        if self._left < 0:
            raise RunnerProtocolError("the box sent more output than its limits allow")
        kept = self._kept[stream]
        kept += data[: self._caps[stream] - len(kept)]
        if self._on_output is not None:
            self._deliver(self._on_output, stream, data)


class GetRequest(Request[None]):
    """A GET: a queue of chunks, bounded by the credit that reading grants."""

    reply = Kind.END

    def __init__(self, max_bytes: int) -> None:
        super().__init__()
        self._chunks: deque[bytes] = deque()
        self._arrived = asyncio.Event()
        self._left = max_bytes
        self._window = INITIAL_CREDIT

    def part(self, frame: Frame) -> None:
        if frame.kind is not Kind.DATA:
            super().part(frame)
        self._left -= len(frame.payload)
        self._window -= len(frame.payload)
        if self._left < 0 or self._window < 0:
            raise RunnerProtocolError("the box sent more of a file than it was asked for")
        self._chunks.append(frame.payload)
        self._arrived.set()

    def result(self, body: Mapping[str, Any]) -> None:
        return None

    def ended(self) -> None:
        self._arrived.set()
        super().ended()

    async def arrived(self) -> None:
        """Returns once there is a chunk, or the request has ended."""
        while not self._chunks and not self.done:
            self._arrived.clear()
            await self._arrived.wait()

    def check(self) -> None:
        """Raises what ended the request before a single chunk came."""
        if not self._chunks and self.done:
            self.answer()

    def next(self) -> bytes | None:
        """Returns the next chunk that arrived, None after the last; raises what ended the request before that."""
        if not self._chunks:
            return self.answer()
        chunk = self._chunks.popleft()
        self._window += len(chunk)
        self._grant(len(chunk))
        return chunk
