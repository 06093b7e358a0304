"""A run's output, passed through as it comes."""

from __future__ import annotations

import asyncio
import codecs
import os
import sys
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Literal, TypeVar

from sandbox_skills.cli.streams import STDERR, STDOUT, OutputClosedError
from sandbox_skills.cli.text import harmless

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from sandbox_skills.cli.terminal import Progress
    from sandbox_skills.engines.base import OutputSink

    Stream = Literal["stdout", "stderr"]

T = TypeVar("T")

DRAIN_SECONDS = 1.0
"""How long a run that was cancelled shows what it had printed: a reader that takes longer is not reading."""


class LiveOutput:
    """Takes a run's output at once, and hands it on no faster than it is read.

    A terminal gets text without control characters, so that a skill cannot move its cursor, set its title or write
    to its clipboard; a pipe gets the bytes. At most what a run may print in all is held in between.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._pieces: SimpleQueue[tuple[int, bytes] | None] = SimpleQueue()
        self._abandoned = False
        self._targets: dict[Stream, _Target] = {
            "stdout": _Target(STDOUT, terminal=sys.stdout.isatty()),
            "stderr": _Target(STDERR, terminal=sys.stderr.isatty()),
        }

    def __call__(self, stream: Stream, data: bytes, /) -> None:
        """Takes some output; returns at once and never raises."""
        target = self._targets[stream]
        if target.is_terminal:
            self._progress.stop()
        self._pieces.put((target.descriptor, target.shown(data)))

    def end(self) -> None:
        """Says that nothing more comes."""
        for target in self._targets.values():
            self._pieces.put((target.descriptor, target.shown(b"", last=True)))
        self._pieces.put(None)

    async def write_all(self) -> None:
        """Writes until the end; raises OutputClosedError, or the OSError of whatever takes the output."""
        loop = asyncio.get_running_loop()
        written: asyncio.Future[Exception | None] = loop.create_future()

        def work() -> None:
            failure = self._write_pieces()
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(_settle, written, failure)

        # A pipe that nobody reads blocks for ever: only a thread of this kind does not hold up the program's end.
        Thread(target=work, name="live output", daemon=True).start()
        try:
            if (failure := await written) is not None:
                raise failure
        finally:
            self._abandoned = True

    def _write_pieces(self) -> Exception | None:
        try:
            while (piece := self._pieces.get()) is not None and not self._abandoned:
                _write(*piece)
        except (OutputClosedError, OSError) as failure:
            return failure
        return None


class _Target:
    """Where one stream goes, and what of its bytes may go there."""

    def __init__(self, descriptor: int, *, terminal: bool) -> None:
        self.descriptor = descriptor
        self.is_terminal = terminal
        # Pieces end anywhere, in the middle of a character too.
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="backslashreplace")

    def shown(self, data: bytes, *, last: bool = False) -> bytes:
        """Returns what is to be written for the next piece of a stream."""
        return harmless(self._decoder.decode(data, last)).encode() if self.is_terminal else data


async def shown_live(start: Callable[[OutputSink], Coroutine[object, object, T]], progress: Progress) -> T:
    """Returns what a run returns, having shown its output meanwhile; cancels it where that cannot be shown."""
    output = LiveOutput(progress)
    writing = asyncio.ensure_future(output.write_all())
    running = asyncio.ensure_future(start(output))
    try:
        await asyncio.wait({running, writing}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            output.end()
        await writing
        return running.result()
    finally:
        await _over(running)
        output.end()
        await asyncio.wait({writing}, timeout=DRAIN_SECONDS)
        await _over(writing)


async def _over(task: asyncio.Future[T]) -> None:
    """Waits until a task is done, which is told to end; what it says is nobody's business any more."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _settle(future: asyncio.Future[T], result: T) -> None:
    if not future.done():
        future.set_result(result)


def _write(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    try:
        while left:
            left = left[os.write(descriptor, left) :]
    except BrokenPipeError as error:
        raise OutputClosedError from error
    except OSError as error:
        raise OSError(error.errno, error.strerror, "the output of the run") from error
