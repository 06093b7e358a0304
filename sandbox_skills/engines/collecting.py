"""What comes of a COLLECT: files that the box names and sends, each name and size checked before a sink sees it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, cast

from sandbox_skills.engines.globs import Glob
from sandbox_skills.engines.requests import Request
from sandbox_skills.engines.wire import Frame, Kind, plain
from sandbox_skills.errors import RunnerProtocolError
from sandbox_skills.spec import Collection, FoundFile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
        self._awaited: int | None = None
        self._cut: set[LimitName] = set()

    def part(self, frame: Frame) -> None:
        if frame.kind is Kind.FILE:
            self._begin(frame.json())
        elif frame.kind is Kind.DATA:
            self._write(frame.payload)
        else:
            super().part(frame)

    def result(self, body: Mapping[str, Any]) -> Collection:
        self._end()
        said = _listed(body)
        hit: set[LimitName] = {name for name in COLLECTION_LIMITS if name in said}
        return Collection(
            files=tuple(self._files),
            limits_hit=frozenset(hit | self._cut),
            skipped=_skipped(body),
        )

    def _begin(self, body: Mapping[str, Any]) -> None:
        self._end()
        size, mode, take = (_count(body, name) for name in ("size", "mode", "take"))
        path = self._checked(body.get("path"))
        if len(self._files) >= self._limits.files or take > min(
            size, self._limits.file_bytes, self._bytes_left
        ):
            raise RunnerProtocolError("the box sent more files or bytes than it was asked for")
        file = FoundFile(path, size, mode & 0o777, truncated=take < size)
        self._files.append(file)
        self._names.add(str(path))
        self._bytes_left -= take
        self._awaited = take
        if file.truncated:
            self._cut.add("collected_bytes")
        self._deliver(self._sink.begin, file)

    def _checked(self, text: object) -> PurePosixPath:
        """Returns the path of the next file: safe, asked for, and after the last one, so that none comes twice."""
        path = safe_relative(text)
        name = str(path)
        if not any(glob.matches(name) for glob in self._globs):
            raise RunnerProtocolError("the box sent a file that no pattern asked for")
        encoded = name.encode()
        if encoded <= self._last:
            raise RunnerProtocolError("the box sent files out of order")
        folder = name.rpartition("/")[0]
        # What was no file when its first entry came cannot become one: its own name would be out of order.
        if folder != self._folder and any(str(parent) in self._names for parent in path.parents):
            raise RunnerProtocolError("the box sent a file below another file")
        self._last, self._folder = encoded, folder
        return path

    def _write(self, data: bytes) -> None:
        if self._awaited is None or len(data) > self._awaited:
            raise RunnerProtocolError("the box sent more of a file than it announced")
        self._awaited -= len(data)
        self._deliver(self._sink.write, data)
        self._grant(len(data))

    def _end(self) -> None:
        if self._awaited is None:
            return
        if self._awaited:
            # It shrank while it was read, which another run may do.
            self._files[-1] = replace(self._files[-1], truncated=True)
        self._awaited = None
        self._deliver(self._sink.end)


def _listed(body: Mapping[str, Any]) -> list[object]:
    value = body.get("limits_hit")
    if not isinstance(value, list):
        raise RunnerProtocolError("END has no valid 'limits_hit'")
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


def _count(body: Mapping[str, Any], name: str) -> int:
    value = body.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_SIZE:
        raise RunnerProtocolError(f"FILE has no valid {name!r}")
    return value


def safe_relative(text: object) -> PurePosixPath:
    """Returns a path that the box named; raises RunnerProtocolError unless it is relative, plain and possible.

    The one rule of `workspace/paths.py` refuses the same; this one may not import upwards and needs no more.
    """
    if not isinstance(text, str) or "\0" in text or len(_encoded(text)) > PATH_BYTES:
        raise RunnerProtocolError("a file name from the box is no path")
    parts = text.split("/")
    if any(part in {"", ".", ".."} for part in parts):
        raise RunnerProtocolError(f"a file name from the box leaves its place: {plain(text)}")
    if len(parts) > PATH_DEPTH or any(len(_encoded(part)) > NAME_BYTES for part in parts):
        raise RunnerProtocolError("a file name from the box is too long")
    return PurePosixPath(text)


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise RunnerProtocolError("a file name from the box is not UTF-8") from error
