"""Server-sent events: bytes, cut anywhere, into the data of each event. Pure.

Only `data` fields and comments: of the servers that are asked here, an event's name and id say nothing that its data
does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.spec import MIB

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_EVENT = 64 * MIB
"""Bytes of one event: the last one holds the whole answer again, and no model writes as much."""

_DATA = b"data:"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class SseDecoder:
    """Takes bytes and gives the data of every event that is whole. Raises what `too_large` makes of a message."""

    def __init__(self, too_large: Callable[[str], Exception]) -> None:
        self._too_large = too_large
        self._parts: list[bytes] = []
        self._held = 0
        self._after_return = False
        self._at_start = True
        self._data: list[bytes] = []

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
        if not newline:
            self._hold(rest)
            return []
        self._parts.append(head)
        lines = b"".join(self._parts).split(b"\n")
        self._parts, self._held = [], sum(map(len, self._data))
        events = [data for line in lines if (data := self._line(line)) is not None]
        self._hold(rest)
        return events

    def end(self) -> list[bytes]:
        """Returns the data of a last event whose end did not come, as some servers leave it out."""
        events = [data for line in (b"".join(self._parts), b"") if (data := self._line(line)) is not None]
        self._parts = []
        return events

    def _hold(self, part: bytes) -> None:
        if part:
            self._parts.append(part)
            self._held += len(part)
        if self._held > MAX_EVENT:
            raise self._too_large(f"the server sends an event of more than {MAX_EVENT // MIB} MiB")

    def _line(self, line: bytes) -> bytes | None:
        """Takes one line; returns the event's data where the line, an empty one, ends it."""
        if not line:
            data, self._data = self._data, []
            return b"\n".join(data) if data else None
        if line.startswith(_DATA):
            value = line[len(_DATA) :]
            self._data.append(value.removeprefix(b" "))
        return None
