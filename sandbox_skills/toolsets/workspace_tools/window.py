"""Output that is too long, shown by its head and its tail around a mark; how much there was is always told. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Windowed:
    """What is shown of an output. `total_bytes` is all of it; `truncated` says that less is shown."""

    text: str
    total_bytes: int
    truncated: bool


class OutputWindow:
    """Takes the output of a program as it comes, and keeps of each stream what a window of `cap` bytes can show.

    The window is over standard output and, behind it, standard error.
    """

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._streams = {"stdout": _Ends(cap), "stderr": _Ends(cap)}

    def __call__(self, stream: Literal["stdout", "stderr"], data: bytes, /) -> None:
        self._streams[stream].feed(data)

    def shown(self) -> Windowed:
        """Returns what is shown of all that came."""
        out, err = self._streams["stdout"], self._streams["stderr"]
        total = out.total + err.total
        if total <= self._cap:
            return Windowed(_decoded(out.head + err.head), total, truncated=False)
        # Each stream has `cap` bytes of either end: enough for either end of both together.
        head = (out.head + err.head)[: self._cap] if out.whole else bytes(out.head)
        tail = (out.tail + err.tail)[-self._cap :] if err.whole else bytes(err.tail)
        return cut(bytes(head), bytes(tail), total, self._cap)


class _Ends:
    """The first and the last bytes of a stream, `cap` of each."""

    def __init__(self, cap: int) -> None:
        self.head = bytearray()
        self.tail = bytearray()
        self.total = 0
        self._cap = cap

    @property
    def whole(self) -> bool:
        """Whether either end is all there was."""
        return self.total <= self._cap

    def feed(self, data: bytes) -> None:
        self.total += len(data)
        self.head += data[: max(self._cap - len(self.head), 0)]
        self.tail += data[-self._cap :]
        del self.tail[: -self._cap]


def windowed(text: str, cap: int) -> Windowed:
    """Returns what a window of `cap` bytes shows of a text."""
    data = text.encode(errors="replace")
    if len(data) <= cap:
        return Windowed(text, len(data), truncated=False)
    return cut(data[:cap], data[-cap:], len(data), cap)


def cut(head: bytes, tail: bytes, total: int, cap: int) -> Windowed:
    """Returns a window over `total` bytes, of which `head` and `tail` are the ends, each of at least `cap` bytes.

    It has at most `cap` bytes, the mark included, and ends where a character does. Where the mark does not fit, it is
    only the beginning.
    """
    mark = f"\n[{total} bytes, cut here]\n".encode()
    room = cap - len(mark)
    if room <= 0:
        return Windowed(_decoded(head[:cap]), total, truncated=True)
    first = (room + 1) // 2
    last = room - first
    ending = tail[len(tail) - last :]
    return Windowed(_decoded(head[:first]) + mark.decode() + _decoded(ending), total, truncated=True)


def _decoded(data: bytes | bytearray) -> str:
    """Returns the text of bytes; those that are none, such as a character's cut end, are left out."""
    return bytes(data).decode(errors="ignore")
