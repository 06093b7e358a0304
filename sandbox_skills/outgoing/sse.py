"""Server-sent events: bytes, cut anywhere, into the data of each event. Pure.

Only `data` fields and comments: of the servers that are asked here, an event's name and id say nothing that its data
does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.spec import MIB

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_EVENT = 32 * MIB
"""Bytes of one event: the last one holds the whole answer again, and no model writes as much."""

LINE_COST = 64
"""Bytes that a line counts beside its own: as many as it takes to hold a short one."""

_DATA = b"data:"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class SseDecoder:
    """Takes bytes and gives the data of every event that is whole. Raises what `too_large` makes of a message."""

    def __init__(self, too_large: Callable[[str], Exception]) -> None:
        self._too_large = too_large
        self._begun = bytearray()  # of a line; pieces may be of one byte each
        self._data: list[bytes] = []
        self._held = 0  # bytes of the lines in `_data`
        self._after_return = False
        self._at_start = True

    def feed(self, chunk: bytes) -> list[bytes]:
        """Returns the data of the events that this chunk completes."""
        if not chunk:
            return []
        if self._at_start:
            chunk, self._at_start = chunk.removeprefix(_BYTE_ORDER_MARK), False
        if self._after_return:  # a line end of two characters may be cut between them
            chunk, self._after_return = chunk.removeprefix(b"\n"), False
        if b"\r" in chunk:
            self._after_return = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        head, newline, rest = chunk.rpartition(b"\n")
        events = self._lines(head) if newline else []
        self._begun += rest
        if self._held + len(self._begun) > MAX_EVENT:
            raise self._too_large(f"the server sends an event of more than {MAX_EVENT // MIB} MiB")
        return events

    def end(self) -> list[bytes]:
        """Returns the data of a last event whose end did not come, as some servers leave it out."""
        return self._lines(b"\n")

    def _lines(self, whole: bytes) -> list[bytes]:
        """Takes lines, the first of which may have begun before."""
        if self._begun:
            whole = bytes(self._begun) + whole
            self._begun.clear()
        return [data for line in whole.split(b"\n") if (data := self._line(line)) is not None]

    def _line(self, line: bytes) -> bytes | None:
        """Takes one line; returns the event's data where the line, an empty one, ends it."""
        if not line:
            data, self._data, self._held = self._data, [], 0
            return b"\n".join(data) if data else None
        if line.startswith(_DATA):
            value = line[len(_DATA) :].removeprefix(b" ")
            self._data.append(value)
            self._held += len(value) + LINE_COST
        return None
