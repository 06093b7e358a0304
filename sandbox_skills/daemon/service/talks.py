"""The programs of runs that somebody may talk to, by the run, while they live in this process."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from sandbox_skills.daemon.errors import RunNotInteractiveError

if TYPE_CHECKING:
    from collections.abc import Generator

    from sandbox_skills.workspace.interactive import InteractiveProgram
    from sandbox_skills.workspace.result import RunResult


class Talks:
    """Where whoever runs a program and whoever talks to it meet; either may come first."""

    def __init__(self) -> None:
        self._programs: dict[str, InteractiveProgram[RunResult]] = {}
        self._changed = asyncio.Event()

    @contextmanager
    def open(self, run_id: str, program: InteractiveProgram[RunResult]) -> Generator[None]:
        """Makes a program one that can be talked to while the block lasts."""
        self._programs[run_id] = program
        self._tell()
        try:
            yield
        finally:
            del self._programs[run_id]
            self._tell()

    async def program(self, run_id: str, *, wait_seconds: float) -> InteractiveProgram[RunResult]:
        """Returns the program of a run once it has begun; raises RunNotInteractiveError where it has not by then."""
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_seconds):
                while run_id not in self._programs:
                    await self._changed.wait()
        if (program := self._programs.get(run_id)) is None:
            raise RunNotInteractiveError(
                f"nobody can talk to run {run_id}", hint="it has ended, or waits for its turn"
            )
        return program

    def _tell(self) -> None:
        """Wakes whoever waits now: each looks again, and waits for the next change."""
        self._changed.set()
        self._changed = asyncio.Event()
