"""Pipes, opened all or none, and those of the next run ahead of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .lean import suppress

if TYPE_CHECKING:
    from collections.abc import Iterable


NOTHING = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
"""The standard input of a program that is given none."""


def open_pipes(count: int) -> list[tuple[int, int]]:
    """Opens all of them or none."""
    pipes: list[tuple[int, int]] = []
    try:
        for _ in range(count):
            pipes.append(os.pipe())  # noqa: PERF401  a comprehension would lose those that were opened
    except OSError:
        close_pipes(pipes)
        raise
    return pipes


def close_pipes(pipes: Iterable[tuple[int, int]]) -> None:
    """Closes both ends of each."""
    for end in sum(pipes, ()):
        os.close(end)


class PipeStock:
    """Pipes for the output of the next run, made while nobody waits for one."""

    COUNT = 2

    def __init__(self) -> None:
        self._ready: list[tuple[int, int]] = []

    def fill(self) -> None:
        """Makes what is missing."""
        if not self._ready:
            with suppress(OSError):  # the run that needs them tells of it
                self._ready = self._made()

    def take(self) -> list[tuple[int, int]]:
        """Returns two pipes whose reading ends do not block."""
        pipes, self._ready = self._ready or self._made(), []
        return pipes

    def _made(self) -> list[tuple[int, int]]:
        pipes = open_pipes(self.COUNT)
        for reading, _ in pipes:
            os.set_blocking(reading, False)
        return pipes
