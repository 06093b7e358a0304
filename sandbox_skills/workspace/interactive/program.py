"""One interactive program: what it has said so far, and what can be done to it."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from sandbox_skills.errors import SessionClosedError
from sandbox_skills.telemetry import NOTHING, Redaction
from sandbox_skills.workspace.execution import RedactedSink, redacted_outcome
from sandbox_skills.workspace.interactive.escapes import plain
from sandbox_skills.workspace.interactive.lines import LineBuffer
from sandbox_skills.workspace.interactive.prompts import WINDOW, detect

if TYPE_CHECKING:
    from sandbox_skills.engines.base import OutputSink, Process, Sandbox
    from sandbox_skills.spec import Command, Limits, Outcome, TerminalSize
    from sandbox_skills.workspace.interactive.lines import Lines
    from sandbox_skills.workspace.interactive.prompts import Interaction

T = TypeVar("T")

QUIET_SECONDS = 0.075
"""Silence after which what was said counts as complete: programs print a screen in one go, people notice 0.1 s."""

YIELD_SECONDS = 0.4
"""How long a poll waits where the caller does not say: what the tools of the field have."""

POLL_LINES = 40
"""Lines that a poll returns where the caller does not say: a screen and a half."""

KILL_SECONDS = 2.0
"""Time to tidy up, from the request to end until SIGKILL."""

PLAIN_TERMINAL = "dumb"
"""TERM of a program whose caller says nothing: its output is read as text. A full-screen program needs another."""

RECENT = 4096
"""Characters of a line whose end may be a question: what steers a terminal takes some of them."""

Status = Literal["running", "exited", "killed"]


@dataclass(frozen=True, slots=True)
class Poll(Generic[T]):
    """What a program has said from a line on, and how it is doing.

    Once it has ended, `outcome` tells how, and `result` is what was made of it.
    """

    program_id: str
    status: Status
    lines: Lines
    interaction: Interaction | None = None
    outcome: Outcome | None = None
    result: T | None = None

    @property
    def text(self) -> str:
        """The lines as a terminal would show them."""
        return plain(self.lines.text)


class InteractiveProgram(Generic[T]):
    """One program under way or ended. Made by `InteractivePrograms`, which owns its task."""

    def __init__(self, program_id: str, *, tty: TerminalSize | None, sink: OutputSink | None = None) -> None:
        self.id = program_id
        self.settled_at: float | None = None
        """When its result was there, by the monotonic clock; None before."""
        self._tty = tty
        self._sink = sink
        self._buffer = LineBuffer()
        self._process: Process | None = None
        self._outcome: Outcome | None = None
        self._end: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._begun = asyncio.Event()
        self._over = asyncio.Event()
        self._changed = asyncio.Event()
        self._killed = False
        self._last_output = 0.0
        self._pieces = 0
        self._seen = 0
        self._cursor = 0
        self._answered = 0

    # What its owner calls.

    async def run_in(
        self,
        sandbox: Sandbox,
        command: Command,
        *,
        limits: Limits | None = None,
        redaction: Redaction = NOTHING,
    ) -> Outcome:
        """Runs its command to the end, as an `Execution` does; once. `command.stdin` is what it gets first.

        What may be the beginning of a secret is heard when it has turned out to be none.
        """
        redacted = RedactedSink(self.received, redaction) if redaction else None
        started = sandbox.start(
            _with_terminal(command, self._tty),
            limits=limits,
            tty=self._tty,
            on_output=redacted or self.received,
        )
        async with started as self._process:
            self._begun.set()
            outcome = redacted_outcome(await self._process.wait(), redaction)
        if redacted is not None:
            redacted.end(outcome)
        self._buffer.feed(b"", final=True)
        self._outcome = outcome
        self._over.set()
        return outcome

    async def begun(self) -> None:
        """Waits until its command was started; raises why it was not."""
        await self._begun.wait()
        if self._process is None:
            self._end.result()

    def received(self, stream: Literal["stdout", "stderr"], data: bytes, /) -> None:
        """Takes output: the OutputSink of its process. Both streams become one text, as on a terminal."""
        self._buffer.feed(data)
        self._pieces += 1
        self._last_output = time.monotonic()
        self._changed.set()
        if self._sink is not None:
            self._sink(stream, data)

    def settle(self, task: asyncio.Task[T]) -> None:
        """Takes what its owner made of it, or why there is nothing to be made."""
        self.settled_at = time.monotonic()
        self._over.set()
        if task.cancelled():
            self._end.set_exception(SessionClosedError(f"program {self.id} was ended with its session"))
        elif error := task.exception():
            self._end.set_exception(error)
        else:
            self._end.set_result(task.result())
        self._end.exception()  # seen, also where nobody polls again
        self._begun.set()
        self._changed.set()

    # What its user calls.

    @property
    def running(self) -> bool:
        """Whether its process has not ended."""
        return not self._over.is_set()

    async def poll(
        self,
        *,
        offset: int | None = None,
        limit: int = POLL_LINES,
        yield_seconds: float = YIELD_SECONDS,
    ) -> Poll[T]:
        """Waits for something new to be said, and for a moment of quiet after it; returns lines from `offset` on.

        Returns at once when the program has ended, and after `yield_seconds` at the latest. Without `offset` it
        goes on where the last poll ended. Raises what kept its owner from a result: a sandbox that was lost,
        outputs that cannot be kept, SessionClosedError where it was ended with its session.
        """
        await self._quiet(time.monotonic() + (yield_seconds if yield_seconds > 0 else 0.0))  # NaN is none
        self._seen = self._pieces
        lines = self._buffer.read(self._cursor if offset is None else offset, limit)
        self._cursor = lines.next_offset
        if not self._end.done():
            return Poll(self.id, "running", lines, interaction=self._interaction())
        result = self._end.result()
        return Poll(self.id, self._status(), lines, outcome=self._outcome, result=result)

    async def result(self) -> T:
        """Waits for its end and returns what was made of it; raises as `poll` does. A cancel leaves it as it is."""
        return await asyncio.shield(self._end)

    async def write(self, text: str, *, submit: bool = False) -> bool:
        """Types text, with the Enter key behind it for `submit`; waits as long as the program takes no more.

        Returns False where it reads no more.
        """
        enter = "\n" if self._tty is None else "\r"
        return await self.feed((text + enter * submit).encode(errors="replace"))

    async def feed(self, data: bytes) -> bool:
        """Gives it bytes as they are, as `write` gives text."""
        if self._process is None or not self.running:
            return False
        self._answered = self._buffer.next + bool(self._buffer.partial)
        return await self._process.write(data)

    def close_stdin(self) -> None:
        """Ends its input; on a terminal that is ^D."""
        if self._process is not None:
            self._process.close_stdin()

    def resize(self, size: TerminalSize) -> None:
        """Changes the size of its terminal; raises CommandError for a size that no terminal has."""
        if self._process is not None:
            self._process.resize(size)

    async def kill(self) -> Status:
        """Asks it to end and ends it 2 s later, with all that came of it; returns "exited" where it had ended.

        A cancel ends it at once.
        """
        if self._process is not None and self.running:
            self._killed = True
            self._process.signal("TERM")
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout(KILL_SECONDS):
                        await self._over.wait()
            finally:
                self._process.kill()
        await asyncio.wait([self._end])
        return self._status()

    def _status(self) -> Status:
        return "killed" if self._killed else "exited"

    def _interaction(self) -> Interaction | None:
        # What stands above the last answer was asked before.
        start = max(self._answered, self._buffer.next - WINDOW)
        recent = self._buffer.read(start, WINDOW)
        return detect([plain(line[-RECENT:]) for line in recent.lines], plain(recent.partial[-RECENT:]))

    async def _quiet(self, deadline: float) -> None:
        while not self._end.done():
            news = self._pieces != self._seen
            until = min(deadline, self._last_output + QUIET_SECONDS) if news else deadline
            left = until - time.monotonic()
            if left <= 0:
                return
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._changed.wait()


def _with_terminal(command: Command, tty: TerminalSize | None) -> Command:
    if tty is None or "TERM" in command.env:
        return command
    return replace(command, env={**command.env, "TERM": PLAIN_TERMINAL})
