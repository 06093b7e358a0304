"""The lines a program has printed: the last of them kept, all of them counted. Pure."""

from __future__ import annotations

import codecs
from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_LINES = 20_000
"""Lines that are kept: a long build log, and what the tools of the field keep."""

MAX_CHARACTERS = 4 * 1024 * 1024
"""Characters that are kept: 200 for each of those lines, 16 MiB of memory at the worst."""

MAX_LINE_CHARACTERS = 16 * 1024
"""A longer line is cut into several: what has no line ends at all must not become one that is never complete."""

READ_CHARACTERS = 256 * 1024
"""Characters that are read at once: several times what a model is shown, and made readable in a tenth of a second."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines from number `offset` on, without their ends. `next_offset` is where to go on.

    `partial` is the line that has not ended yet; it comes again, and is no part of the count. `dropped` lines were
    asked for and are gone, `left` lines are there and were not taken.
    """

    offset: int
    next_offset: int
    lines: tuple[str, ...] = ()
    partial: str = ""
    dropped: int = 0
    left: int = 0

    @property
    def text(self) -> str:
        """All of it as one text."""
        ended = "".join(f"{line}\n" for line in self.lines)
        return ended + self.partial


class LineBuffer:
    """Cuts a stream of UTF-8 into lines. CRLF ends a line as LF does; other bytes become U+FFFD."""

    def __init__(self, *, max_lines: int = MAX_LINES, max_characters: int = MAX_CHARACTERS) -> None:
        self._max_lines = max_lines
        self._max_characters = max_characters
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._lines: deque[str] = deque()
        self._characters = 0
        self._tail = ""
        self.first = 0
        """Number of the oldest line that is kept."""

    @property
    def next(self) -> int:
        """Number that the line which has not ended will have."""
        return self.first + len(self._lines)

    @property
    def partial(self) -> str:
        """The line that has not ended."""
        return self._tail.rstrip("\r")

    def feed(self, data: bytes, *, final: bool = False) -> None:
        """Takes what the program printed; `final` where nothing follows."""
        *ended, tail = (self._tail + self._decoder.decode(data, final)).split("\n")
        for line in ended:
            self._add(line.rstrip("\r"))
        # A carriage return at the very end may be half of a line end.
        while len(tail) > MAX_LINE_CHARACTERS + 1:
            self._keep(tail[:MAX_LINE_CHARACTERS])
            tail = tail[MAX_LINE_CHARACTERS:]
        self._tail = tail

    def read(self, offset: int, limit: int) -> Lines:
        """Returns up to `limit` lines from number `offset` on; the unended line with the last of them.

        Fewer come where they are more than READ_CHARACTERS together.
        """
        start = min(max(offset, self.first), self.next)
        index = start - self.first
        wanted = islice(self._lines, index, index + min(max(limit, 0), len(self._lines)))
        lines = tuple(_bounded(wanted))
        left = len(self._lines) - index - len(lines)
        return Lines(
            offset=start,
            next_offset=start + len(lines),
            lines=lines,
            partial="" if left else self.partial,
            dropped=max(self.first - max(offset, 0), 0),
            left=left,
        )

    def _add(self, line: str) -> None:
        for start in range(0, max(len(line), 1), MAX_LINE_CHARACTERS):
            self._keep(line[start : start + MAX_LINE_CHARACTERS])

    def _keep(self, line: str) -> None:
        self._lines.append(line)
        self._characters += len(line) + 1
        while len(self._lines) > self._max_lines or self._characters > self._max_characters:
            self._characters -= len(self._lines.popleft()) + 1
            self.first += 1


def _bounded(lines: Iterable[str]) -> Iterator[str]:
    left = READ_CHARACTERS
    for line in lines:
        left -= len(line) + 1
        if left < 0:
            return
        yield line
