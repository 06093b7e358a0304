"""Requests and answers over the channel to one runner: who waits for what, how long, and the end of it all.

The link knows nothing of what a request means. It ends for good at the first breach, at the end of the channel, and
when the box lets a request wait too long; whatever waits then hears why.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from sandbox_skills.engines.pace import Pace
from sandbox_skills.engines.requests import Answer, Request
from sandbox_skills.engines.wire import (
    HEADER,
    INITIAL_CREDIT,
    MAX_REPLY_JSON,
    Decoder,
    Frame,
    Kind,
    encode,
    encode_chunks,
)
from sandbox_skills.errors import EngineError, RunnerProtocolError, SandboxLostError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator, Mapping

    from sandbox_skills.engines.channel import Channel

T = TypeVar("T")
R = TypeVar("R", bound=Request[Any])

SLOWEST = 1024 * 1024
"""Bytes a second that any box must manage: a loaded one with a tenth of a CPU still does twenty times that."""

LATE_BYTES = INITIAL_CREDIT + MAX_REPLY_JSON
"""What may still come for a request that was given up: all it had credit for, and its last word."""


class Patience:
    """How long one request may wait for its box, over all its waits together; bytes to be moved add to it."""

    def __init__(self, seconds: float, *, size: int = 0) -> None:
        self.seconds = seconds + size / SLOWEST

    def add(self, size: int) -> None:
        """Allows for as many bytes more."""
        self.seconds += size / SLOWEST


class Link:
    """The receiver of a channel. Made before the channel is; `name` is the sandbox in messages."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._channel: Channel | None = None
        self._decoder = Decoder()
        self._pace = Pace()
        self._last_ref = 0
        self._late = 0
        self._fault: EngineError | None = None
        self.hello = Answer(Kind.HELLO)
        self._requests: dict[int, Request[Any]] = {0: self.hello}

    @property
    def alive(self) -> bool:
        """Whether the link has not ended; False never becomes True again."""
        return self._fault is None

    # What the channel calls.

    def received(self, data: memoryview) -> None:
        if self._fault is not None:
            return
        try:
            for frame in self._decoder.feed(data):
                self._dispatch(frame)
        except RunnerProtocolError as error:
            self.fail(error)

    def lost(self, reason: str) -> None:
        self.fail(SandboxLostError(f"sandbox {self.name} was lost: {reason}"))

    def connect(self, channel: Channel) -> None:
        """Gives the link its channel; frames may have come before."""
        self._channel = channel
        if self._fault is not None:
            channel.close()

    def fail(self, fault: EngineError) -> EngineError:
        """Ends the link and every request; returns why it ended, which is the first fault of all."""
        if self._fault is None:
            self._fault = fault
            if self._channel is not None:
                self._channel.close()
            requests, self._requests = list(self._requests.values()), {}
            for request in requests:
                request.fail(fault)
        return self._fault.with_traceback(None)

    # What the client calls.

    @contextmanager
    def asked(self, request: R) -> Generator[R]:
        """Registers a request as long as somebody waits for it; the box is told when it is given up.

        Raises what ended the link.
        """
        self.ask(request)
        try:
            yield request
        finally:
            self.give_up(request)

    def ask(self, request: Request[Any]) -> None:
        """Registers a request, until it is given up; raises what ended the link.

        Every run is asked so: `asked` costs it as much again where no cache is warm.
        """
        if self._fault is not None:
            raise self._fault.with_traceback(None)
        self._last_ref += 1
        ref = request.ref = self._last_ref
        request.send = lambda kind, body=b"", /: self.send(kind, ref, body)
        self._requests[ref] = request

    def give_up(self, request: Request[Any]) -> None:
        """Forgets a request for which nobody waits any more; the box is told unless it has answered."""
        if self._requests.pop(request.ref, None) is not None:
            self._late += LATE_BYTES
            self.send(Kind.KILL, request.ref, {"reason": "cancelled"})

    async def answer(self, request: Request[T], patience: Patience) -> T:
        """Returns the answer, or raises the refusal; a cancel leaves the request as it is."""
        started = time.monotonic()
        answer = await self.answer_within(request, patience.seconds)
        patience.seconds -= time.monotonic() - started
        return answer

    async def answer_within(self, request: Request[T], seconds: float) -> T:
        """Returns as `answer` does; gives the box up where the answer takes longer."""
        if not await request.settled(seconds):
            raise self.fail(self._late_answer())
        return request.answer()

    async def waited(self, waiting: Coroutine[None, None, None], patience: Patience) -> None:
        """Waits for the box, and gives it up when the patience is over."""
        started = time.monotonic()
        try:
            async with asyncio.timeout(patience.seconds):
                await waiting
        except TimeoutError as error:
            raise self.fail(self._late_answer()) from error
        finally:
            patience.seconds -= time.monotonic() - started

    def _late_answer(self) -> SandboxLostError:
        return SandboxLostError(f"sandbox {self.name} did not answer in time")

    def send(self, kind: Kind, ref: int, body: bytes | Mapping[str, Any] = b"") -> None:
        """Queues one frame; raises RequestError for one that is too long."""
        self._write(encode(kind, ref, body))

    async def stream(self, kind: Kind, ref: int, data: bytes, patience: Patience) -> None:
        """Sends raw bytes no faster than the box takes them."""
        patience.add(len(data))
        for frame in encode_chunks(kind, ref, data):
            self._write(frame)
            if self._channel is not None:
                await self.waited(self._channel.drain(), patience)

    def _write(self, frame: bytes) -> None:
        if self._channel is not None and self._fault is None:
            self._channel.write(frame)

    def _dispatch(self, frame: Frame) -> None:
        if frame.kind is Kind.STDOUT or frame.kind is Kind.STDERR:
            # Nobody asked for it piece by piece, as for files: it is paced.
            self._take_in(len(frame.payload))
        request = self._requests.get(frame.ref)
        if request is None:
            self._allow_late(frame)
            return
        request.take(frame)
        if request.done:
            self._requests.pop(frame.ref, None)

    def _take_in(self, count: int) -> None:
        seconds = self._pace.taken(count, time.monotonic())
        if seconds and self._channel is not None:
            self._channel.rest(seconds)

    def _allow_late(self, frame: Frame) -> None:
        """Drops what comes for a request that was given up, as much as was on its way; more is a breach."""
        self._late -= len(frame.payload) + HEADER.size
        if self._late < 0 or not 0 < frame.ref <= self._last_ref:
            raise RunnerProtocolError(f"{frame.kind.name} for a request that nobody made")
