"""A run's output, told to an MCP client while it comes: as many messages as it can take, and never more than that."""

from __future__ import annotations

import codecs
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Literal, Protocol

import anyio

from sandbox_skills.spec import KIB

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from sandbox_skills.engines.base import OutputSink

INTERVAL_SECONDS = 0.1
"""Between two messages: what people see as live; a client pays for each of them."""

MAX_HELD = 16 * KIB
"""Characters that wait to be told; of more only the end is, since the result has the beginning."""


class Reporter(Protocol):
    """Tells a client how far its request is, as `ServerSession.report_progress`."""

    async def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None: ...


class _Held:
    """Output that was not told yet."""

    def __init__(self) -> None:
        self.text = ""
        self.told = 0
        make = codecs.getincrementaldecoder("utf-8")
        self._decoders = {"stdout": make("replace"), "stderr": make("replace")}

    def take(self, stream: Literal["stdout", "stderr"], data: bytes, /) -> None:
        self.text = (self.text + self._decoders[stream].decode(data))[-MAX_HELD:]

    async def tell(self, reporter: Reporter) -> None:
        text, self.text = self.text, ""
        if text:
            self.told += 1
            await reporter.report_progress(float(self.told), message=text)


@asynccontextmanager
async def told_live(reporter: Reporter) -> AsyncGenerator[OutputSink]:
    """Gives a sink whose output is told every 0.1 s, and the rest when the block is left without an error."""
    held, left = _Held(), anyio.Event()

    async def tell_on() -> None:
        while not left.is_set():
            with anyio.move_on_after(INTERVAL_SECONDS):
                await left.wait()
            await held.tell(reporter)  # no end but an error cuts this off: what is on its way would be lost

    async with anyio.create_task_group() as group:
        group.start_soon(tell_on)
        yield held.take
        left.set()
    await held.tell(reporter)
