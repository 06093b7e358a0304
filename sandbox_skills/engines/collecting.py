"""What comes of a COLLECT: files that the box names and sends, each name and size checked before a sink sees it."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, cast

from anyio import to_thread

from sandbox_skills.engines.base import whole_of
from sandbox_skills.engines.cancellation import finish
from sandbox_skills.engines.globs import Glob
from sandbox_skills.engines.requests import Request
from sandbox_skills.engines.wire import INITIAL_CREDIT, Frame, Kind, plain
from sandbox_skills.errors import RunnerProtocolError
from sandbox_skills.spec import Collection, FoundFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sandbox_skills.engines.base import FileSink
    from sandbox_skills.spec import CollectLimits, LimitName

COLLECTION_LIMITS: tuple[LimitName, ...] = ("collected_files", "collected_bytes")

MAX_SKIPPED = 100
"""As many skipped paths as one collection tells: the runner sends no more either."""

MAX_REASON = 200
"""Longest reason for one of them; the runner has a word for each."""

PATH_BYTES, NAME_BYTES = 4096, 255
"""PATH_MAX and NAME_MAX of Linux: a longer one could not be written here."""

PATH_DEPTH = 80
"""Names in one path: the runner goes 64 directories down, and matching takes time with each."""

MAX_SIZE = 2**63 - 1
"""What a file can have on Linux."""

_ROW_CELLS = 4
"""Path, size, mode and how many bytes are sent."""


class CollectRequest(Request[Collection]):
    """A COLLECT: files go to the sink as they come, and every cap is enforced here once more."""

    reply = Kind.END

    def __init__(self, patterns: Sequence[str], limits: CollectLimits, sink: FileSink) -> None:
        super().__init__()
        self._globs = tuple(Glob(pattern) for pattern in patterns)
        self._limits = limits
        self._sink = sink
        self._files: list[FoundFile] = []
        self._names: set[str] = set()
        self._last = b""
        self._folder: str = ""
        self._bytes_left = limits.total_bytes
        self._awaited: deque[tuple[FoundFile, int]] = deque()
        self._bytes_awaited = 0
        self._window = INITIAL_CREDIT
        self._current: int | None = None
        self._cut: set[LimitName] = set()
        self._work: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._hand = self._put_by if sink.blocking else self._deliver
        self._whole = whole_of(sink) or self._in_calls
        self._arrived = asyncio.Event()

    def part(self, frame: Frame) -> None:
        if frame.kind is Kind.FILES:
            self._end()
            self._announce(frame.json())
        elif frame.kind is Kind.DATA:
            self._write(frame.payload)
        else:
            super().part(frame)

    def result(self, body: Mapping[str, Any]) -> Collection:
        self._end()
        said = _listed(body, "limits_hit")
        hit: set[LimitName] = {name for name in COLLECTION_LIMITS if name in said}
        return Collection(
            files=tuple(self._files),
            limits_hit=frozenset(hit | self._cut),
            skipped=_skipped(body),
        )

    def ended(self) -> None:
        self._arrived.set()
        super().ended()

    async def arrived(self) -> None:
        """Returns once there is work for a blocking sink, or the request has ended."""
        while not self._work and not self.done:
            self._arrived.clear()
            await self._arrived.wait()

    async def carried_out(self) -> bool:
        """Gives a blocking sink what has come, in a worker thread; returns whether there was any.

        The box may send as much more when that is done. A cancel waits for the call in hand. Raises what the sink
        raises.
        """
        work, self._work = self._work, []
        if work:
            await finish(to_thread.run_sync(_carry_out, work))
            self._taken(sum(len(data) for _, args in work for data in args if isinstance(data, bytes)))
        return bool(work)

    def _taken(self, count: int) -> None:
        """Counts bytes that the sink has: the box may send as many more."""
        self._window += count
        self._grant(count)

    def _announce(self, body: Mapping[str, Any]) -> None:
        rows = _listed(body, "files")
        if not rows:
            # Frames that name nothing would count against no limit, however many came.
            raise RunnerProtocolError("FILES names no file")
        for row in rows:
            file, take = self._announced(row)
            self._files.append(file)
            self._awaited.append((file, take))
            self._bytes_awaited += take
        self._pass_empty()

    def _announced(self, row: object) -> tuple[FoundFile, int]:
        """Returns a file that is to come and how many of its bytes are; counts both against the limits."""
        if not isinstance(row, list) or len(cells := cast("list[object]", row)) != _ROW_CELLS:
            raise RunnerProtocolError("FILES has a row that tells of no file")
        size, mode, take = _count(cells[1]), _count(cells[2]), _count(cells[3])
        path = self._checked(cells[0])
        if len(self._files) >= self._limits.files or take > min(
            size, self._limits.file_bytes, self._bytes_left
        ):
            raise RunnerProtocolError("the box sent more files or bytes than it was asked for")
        self._bytes_left -= take
        if take < size:
            self._cut.add("collected_bytes")
        return FoundFile(path, size, mode & 0o777, truncated=take < size), take

    def _checked(self, text: object) -> PurePosixPath:
        """Returns the path of the next file: safe, asked for, and after the last one, so that none comes twice."""
        name, path = safe_relative(text)
        for glob in self._globs:
            if glob.matches(name):
                break
        else:
            raise RunnerProtocolError("the box sent a file that no pattern asked for")
        encoded = name.encode()
        if encoded <= self._last:
            raise RunnerProtocolError("the box sent files out of order")
        folder = name.rpartition("/")[0]
        # What was no file when its first entry came cannot become one: its own name would be out of order.
        if folder != self._folder and any(str(parent) in self._names for parent in path.parents):
            raise RunnerProtocolError("the box sent a file below another file")
        self._last, self._folder = encoded, folder
        self._names.add(name)
        return path

    def _pass_empty(self) -> None:
        """Passes on the next files that were announced, as long as they have no bytes to wait for."""
        while self._current is None and self._awaited and not self._awaited[0][1]:
            self._hand(self._whole, self._awaited.popleft()[0], b"")

    def _in_calls(self, file: FoundFile, data: bytes) -> None:
        """Gives a sink that takes no whole files one that is all there."""
        self._sink.begin(file)
        if data:
            self._sink.write(data)
        self._sink.end()

    def _write(self, data: bytes) -> None:
        if len(data) > self._bytes_awaited:
            raise RunnerProtocolError("the box sent more of a file than it announced")
        self._bytes_awaited -= len(data)
        self._window -= len(data)
        if self._window < 0:
            raise RunnerProtocolError("the box sent more than it had credit for")
        start = 0
        while start < len(data):
            start += self._piece(data, start)
            self._pass_empty()
        if not self._sink.blocking:
            self._taken(len(data))

    def _piece(self, data: bytes, start: int) -> int:
        """Passes on what `data` has from `start` on of one file; returns how many bytes these are."""
        if self._current is None:
            file, take = self._awaited.popleft()
            if take <= len(data) - start:
                self._hand(self._whole, file, data[start : start + take])
                return take
            self._current = take
            self._hand(self._sink.begin, file)
        piece = data[start : start + self._current]
        self._current -= len(piece)
        self._hand(self._sink.write, piece)
        if not self._current:
            self._finish()
        return len(piece)

    def _end(self) -> None:
        """Ends a file whose last bytes never came: it shrank while it was read, which another run may do."""
        if self._current is None and not self._awaited:
            return
        if len(self._awaited) + (self._current is not None) > 1:
            raise RunnerProtocolError("the box announced files that it did not send")
        if self._awaited:  # not even its first byte came
            self._hand(self._sink.begin, self._awaited.popleft()[0])
        self._files[-1] = replace(self._files[-1], truncated=True)
        self._bytes_awaited = 0
        self._finish()

    def _finish(self) -> None:
        self._current = None
        self._hand(self._sink.end)

    def _put_by(self, call: Callable[..., None], *args: object) -> None:
        self._work.append((call, args))
        self._arrived.set()


def _carry_out(work: Iterable[tuple[Callable[..., None], tuple[Any, ...]]]) -> None:
    for call, args in work:
        call(*args)


def _listed(body: Mapping[str, Any], name: str) -> list[object]:
    value = body.get(name)
    if not isinstance(value, list):
        raise RunnerProtocolError(f"the box sent no valid {name!r}")
    return cast("list[object]", value)


def _skipped(body: Mapping[str, Any]) -> dict[str, str]:
    """Returns why matching paths were left, as text that can be printed."""
    value = body.get("skipped")
    rows = cast("dict[str, object]", value).items() if isinstance(value, dict) else ()
    texts = {path: reason for path, reason in rows if isinstance(reason, str)}
    if not isinstance(value, dict) or len(texts) < len(rows):
        raise RunnerProtocolError("END has no valid 'skipped'")
    first = list(texts.items())[:MAX_SKIPPED]
    return {plain(path, PATH_BYTES): plain(reason, MAX_REASON) for path, reason in first}


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value <= MAX_SIZE:
        raise RunnerProtocolError("FILES has no valid size, mode or length")
    return value


def safe_relative(text: object) -> tuple[str, PurePosixPath]:
    """Returns a path that the box named, and as one; raises RunnerProtocolError unless it is relative and possible.

    The one rule of `workspace/paths.py` refuses the same; this one may not import upwards and needs no more.
    """
    if isinstance(text, str) and len(text) < NAME_BYTES and _USUAL.fullmatch(text):
        return text, PurePosixPath(text)
    if not isinstance(text, str) or "\0" in text or len(_encoded(text)) > PATH_BYTES:
        raise RunnerProtocolError("a file name from the box is no path")
    parts = text.split("/")
    if any(part in {"", ".", ".."} for part in parts):
        raise RunnerProtocolError(f"a file name from the box leaves its place: {plain(text)}")
    if len(parts) > PATH_DEPTH or any(len(_encoded(part)) > NAME_BYTES for part in parts):
        raise RunnerProtocolError("a file name from the box is too long")
    return text, PurePosixPath(text)


_USUAL = re.compile(r"\w[\w.-]*(?:/\w[\w.-]*){0,9}", re.ASCII)
"""Paths in which nothing can be wrong, as nearly all are: the whole rule took a quarter of a collection's time."""


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise RunnerProtocolError("a file name from the box is not UTF-8") from error
