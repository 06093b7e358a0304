"""The global options, and how a command's coroutine is run so that a signal ends it cleanly."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from sandbox_skills.cli.exits import INTERRUPTED, TERMINATED
from sandbox_skills.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping
    from pathlib import Path

    from sandbox_skills.settings import Settings

T = TypeVar("T")


class StoppedBySignalError(Exception):
    """The user, or whoever runs us, ended the command; everything it had open is closed by now."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@dataclass(slots=True)
class GlobalOptions:
    """What was given before the command's name. `as_json` is set by the command that has `--json`."""

    skills: tuple[Path, ...] = ()
    config: Path | None = None
    engine: str | None = None
    as_json: bool = field(default=False)

    def settings(self, overrides: Mapping[str, object] | None = None) -> Settings:
        """Returns the settings in force; options of the command line win."""
        given = {"skills.roots": self.skills or None, "engine": self.engine, **(overrides or {})}
        return load_settings(given, config=self.config)


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Runs a command to its end. Ctrl-C and SIGTERM cancel it; it cleans up, then StoppedBySignalError is raised."""
    return asyncio.run(_until_signal(work))


async def _until_signal(work: Coroutine[Any, Any, T]) -> T:
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    stopped: list[int] = []

    def stop(code: int) -> None:
        stopped.append(code)
        task.cancel()

    codes = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED}
    for number, code in codes.items():
        loop.add_signal_handler(number, stop, code)
    try:
        return await task
    except asyncio.CancelledError:
        if stopped:
            raise StoppedBySignalError(stopped[0]) from None
        raise
    finally:
        for number in codes:
            loop.remove_signal_handler(number)
