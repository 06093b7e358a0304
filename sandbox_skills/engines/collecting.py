"""What comes of a COLLECT: files that the box names and sends, each name and size checked before a sink sees it."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from dataclasses import replace
from itertools import accumulate
from operator import lt
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
_Row = tuple[str, int, int, int]
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
        self._last = ""
        self._folder: str | None = None
        self._asked_for: tuple[Callable[[str], object], ...] = ()
        self._bytes_left = limits.total_bytes
        self._awaited: deque[tuple[FoundFile, int]] = deque()
        self._bytes_awaited = 0
        self._window = INITIAL_CREDIT
        self._current: int | None = None
        self._cut: set[LimitName] = set()
        self._work: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._held = 0
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
            count, self._held = self._held, 0
            await finish(to_thread.run_sync(_carry_out, work))
            self._taken(count)
        return bool(work)

    def _taken(self, count: int) -> None:
        """Counts bytes that the sink has: the box may send as many more."""
        self._window += count
        self._grant(count)

    def _announce(self, body: Mapping[str, Any]) -> None:
        """Takes the files that are to come; those of a FILES are checked together, as there may be thousands."""
        rows = list(map(_row, _listed(body, "files")))
        if not rows:
            # Frames that name nothing would count against no limit, however many came.
            raise RunnerProtocolError("FILES names no file")
        self._count(rows)
        self._check([row[0] for row in rows])
        for name, size, mode, take in rows:
            file = FoundFile(name, size, mode & 0o777, take < size)
            self._files.append(file)
            self._awaited.append((file, take))
        self._pass_whole(b"", 0)  # those that have no bytes to wait for

    def _count(self, rows: Sequence[_Row]) -> None:
        """Counts files and bytes against the limits."""
        most = self._limits.file_bytes
        taken = sum(row[3] for row in rows)
        fits = all(take <= size and take <= most for _, size, _, take in rows)
        if not fits or len(self._files) + len(rows) > self._limits.files or taken > self._bytes_left:
            raise RunnerProtocolError("the box sent more files or bytes than it was asked for")
        self._bytes_left -= taken
        self._bytes_awaited += taken
        if any(take < size for _, size, _, take in rows):
            self._cut.add("collected_bytes")

    def _check(self, names: Sequence[str]) -> None:
        """Lets the next files pass: each asked for, and after the last one, so that none comes twice."""
        # Text of UTF-8 sorts as its bytes do.
        if not all(map(lt, (self._last, *names), names)):
            raise RunnerProtocolError("the box sent files out of order")
        self._last = names[-1]
        for text in names:
            folder, _, name = text.rpartition("/")
            if folder != self._folder:
                self._enter(folder)
            for asked_for in self._asked_for:
                if asked_for(name):
                    break
            else:
                raise RunnerProtocolError("the box sent a file that no pattern asked for")
            self._names.add(text)

    def _enter(self, folder: str) -> None:
        """Looks at the way to the next files, which are beside each other mostly."""
        # What was no file when its first entry came cannot become one: its own name would be out of order.
        if folder and any(above in self._names for above in accumulate(folder.split("/"), "{}/{}".format)):
            raise RunnerProtocolError("the box sent a file below another file")
        self._folder = folder
        self._asked_for = tuple(test for glob in self._globs for test in glob.within(folder))

    def _write(self, data: bytes) -> None:
        if len(data) > self._bytes_awaited:
            raise RunnerProtocolError("the box sent more of a file than it announced")
        self._bytes_awaited -= len(data)
        self._window -= len(data)
        if self._window < 0:
            raise RunnerProtocolError("the box sent more than it had credit for")
        start = self._pass_rest(data)
        start = self._pass_whole(data, start)
        if start < len(data):
            self._pass_first(data[start:])
        if self._sink.blocking:
            self._held += len(data)
        else:
            self._taken(len(data))

    def _pass_rest(self, data: bytes) -> int:
        """Passes on what `data` begins with of a file that was begun before; returns how many bytes these are."""
        if self._current is None:
            return 0
        piece = data[: self._current]
        self._current -= len(piece)
        self._hand(self._sink.write, piece)
        if not self._current:
            self._finish()
        return len(piece)

    def _pass_whole(self, data: bytes, start: int) -> int:
        """Passes on the files that `data` has whole from `start` on; returns where it has no more of them."""
        files: list[tuple[FoundFile, bytes]] = []
        while self._current is None and self._awaited:
            end = start + self._awaited[0][1]
            if end > len(data):
                break
            files.append((self._awaited.popleft()[0], data[start:end]))
            start = end
        if files:
            self._hand(self._each, files)
        return start

    def _pass_first(self, piece: bytes) -> None:
        """Passes on the first bytes of a file."""
        file, take = self._awaited.popleft()
        self._current = take - len(piece)
        self._hand(self._sink.begin, file)
        self._hand(self._sink.write, piece)

    def _each(self, files: Iterable[tuple[FoundFile, bytes]]) -> None:
        for file, data in files:
            self._whole(file, data)

    def _in_calls(self, file: FoundFile, data: bytes) -> None:
        """Gives a sink that takes no whole files one that is all there."""
        self._sink.begin(file)
        if data:
            self._sink.write(data)
        self._sink.end()

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


def _row(row: object) -> _Row:
    """Returns what a row tells of a file; raises RunnerProtocolError where it cannot be true."""
    if not isinstance(row, list) or len(cells := cast("list[object]", row)) != _ROW_CELLS:
        raise RunnerProtocolError("FILES has a row that tells of no file")
    name, size, mode, take = cells
    # A bool is an int to isinstance.
    if type(size) is not int or type(mode) is not int or type(take) is not int:
        raise RunnerProtocolError("FILES has no valid size, mode or length")
    if not (0 <= size <= MAX_SIZE and 0 <= mode <= MAX_SIZE and take >= 0):
        raise RunnerProtocolError("FILES has no valid size, mode or length")
    return safe_relative(name), size, mode, take


def safe_relative(text: object) -> str:
    """Returns a path that the box named; raises RunnerProtocolError unless it is relative and possible.

    The one rule of `workspace/paths.py` refuses the same; this one may not import upwards and needs no more.
    """
    if isinstance(text, str) and len(text) < NAME_BYTES and _USUAL.fullmatch(text):
        return text
    if not isinstance(text, str) or "\0" in text or len(_encoded(text)) > PATH_BYTES:
        raise RunnerProtocolError("a file name from the box is no path")
    parts = text.split("/")
    if any(part in {"", ".", ".."} for part in parts):
        raise RunnerProtocolError(f"a file name from the box leaves its place: {plain(text)}")
    if len(parts) > PATH_DEPTH or any(len(_encoded(part)) > NAME_BYTES for part in parts):
        raise RunnerProtocolError("a file name from the box is too long")
    return text


_USUAL = re.compile(r"\w[\w.-]*(?:/\w[\w.-]*){0,9}", re.ASCII)
"""Paths in which nothing can be wrong, as nearly all are: the whole rule took a quarter of a collection's time."""


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise RunnerProtocolError("a file name from the box is not UTF-8") from error
