"""Output that is told while it comes: all of it, whenever its run ends."""

from __future__ import annotations

import anyio
import pytest

from sandbox_skills.mcp import progress
from sandbox_skills.mcp.progress import told_live

pytestmark = pytest.mark.anyio


class SlowReporter:
    """A client that takes a message when it is let, as one behind a network."""

    def __init__(self) -> None:
        self.asked, self.takes = anyio.Event(), anyio.Event()
        self.heard: list[str | None] = []

    async def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        self.asked.set()
        await self.takes.wait()
        self.heard.append(message)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "INTERVAL_SECONDS", 0.001)


async def test_what_is_on_its_way_when_the_run_ends_arrives() -> None:
    reporter = SlowReporter()
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group, told_live(reporter) as sink:
            sink("stdout", b"one")
            await reporter.asked.wait()
            sink("stdout", b"two")

            async def let() -> None:
                await anyio.sleep(0.05)  # the run has ended by then
                reporter.takes.set()

            group.start_soon(let)
    assert "".join(text or "" for text in reporter.heard) == "onetwo"


async def test_an_error_ends_it_at_once() -> None:
    reporter = SlowReporter()

    async def fail() -> None:
        async with told_live(reporter) as sink:
            sink("stdout", b"one")
            await reporter.asked.wait()
            raise ValueError("the run's own")

    with anyio.fail_after(10), pytest.raises(ExceptionGroup):
        await fail()
    assert reporter.heard == []
