"""The frames between the host and the runner. Pure: bytes in, frames out.

A frame is `kind` (1 byte), `ref` (4), `length` (4), big-endian, then `length` bytes of payload. `ref` is chosen by
the host and names the request that a frame belongs to. Payloads are JSON objects, or raw bytes where the table says so.

    host → box                                          box → host
    PING                                                PONG
    PREPARE  {dirs: [path], links: [[path, target]]}    DONE {}
    RUN      {argv, env, cwd, stdin, tty, stream,       STDOUT bytes, STDERR bytes, ENDED {…}
              limits, places: {dirs, links}, record,
              look_into}
    STDIN    bytes       CLOSE_STDIN                    STDIN_CREDIT {bytes}, STDIN_CLOSED {}
    RESIZE   {rows, cols}   SIGNAL {signal}             (belong to a RUN, as the line above)
    KILL     {reason}                                   (of a RUN: its ENDED follows; of a PUT, GET, COLLECT: ERROR)
    PUT      {path, mode}  CHUNK bytes…  CHUNKS_END     DONE {size}
    GET      {path, max_bytes}                          DATA bytes…, END {size, truncated}
    COLLECT  {patterns, files, file_bytes, total_bytes} FILES {files: [[path, size, mode, take]]}, DATA bytes…, …,
                                                        END {limits_hit, skipped}
    CREDIT   {bytes}                                    (GET and COLLECT send no more than they have credit for)
    FACTS                                               FACTS {…}
                                                        HELLO {…} once, ref 0, before anything else
                                                        ERROR {code, message} instead of any reply above

The bytes of the files that one FILES names follow one another in DATA, `take` of each; of a single one there may come
fewer, as it may shrink while it is read.

STDIN goes as far as STDIN_CREDIT allows, which is granted as the program takes it, so that neither a cancel nor
another run waits behind input that nobody reads. STDIN_CLOSED says that the program reads no more. With `tty`
{rows, cols} the program has a terminal in place of the three pipes: its output is STDOUT, and CLOSE_STDIN types ^D.
With `record` [word] ENDED has in `record` what was seen of the program: {events: [[kind, what, detail, count]], lost}.
With `look_into` path ENDED tells as `empty` whether nothing lies in that directory, or it is not there.

The host believes no reply: kinds and codes are closed sets, and `Decoder` refuses what is too long, unknown, or raw
and empty.
`runner-image/runner/protocol.py` spells the same constants; a test compares them.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import PydanticSerializationError, from_json, to_json

from sandbox_skills.errors import RequestError, RunnerProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PROTOCOL = 4
"""Both sides must speak the same number; the image is rebuilt when it changes."""

HEADER = struct.Struct("!BII")

MAX_DATA = 256 * 1024
"""Longest raw payload: large enough that headers cost nothing, small enough that a cancel is seen at once."""

MAX_JSON = 2 * 1024 * 1024
"""Longest JSON payload from the host: Linux allows about 2 MiB of arguments and environment in all."""

MAX_REPLY_JSON = 256 * 1024
"""Longest JSON payload from the box; a FACTS reply has a few KiB, a path at most 4,096 bytes."""

INITIAL_CREDIT = 4 * 1024 * 1024
"""What GET and COLLECT may send before the first CREDIT: bounds what the host holds for a slow reader."""

STDIN_WINDOW = 1024 * 1024
"""What a run may be sent as STDIN before the first STDIN_CREDIT: what the runner holds of it, for each of its runs."""


class Kind(IntEnum):
    """Every frame there is; the host's are below 64, the box's above."""

    PING = 1
    PREPARE = 2
    RUN = 3
    STDIN = 4
    CLOSE_STDIN = 5
    KILL = 6
    PUT = 7
    CHUNK = 8
    CHUNKS_END = 9
    GET = 10
    COLLECT = 11
    CREDIT = 12
    FACTS = 13
    RESIZE = 14
    SIGNAL = 15

    HELLO = 64
    PONG = 65
    DONE = 66
    STDOUT = 68
    STDERR = 69
    ENDED = 70
    DATA = 71
    FILES = 72
    END = 73
    FACTS_REPLY = 74
    ERROR = 75
    STDIN_CREDIT = 76
    STDIN_CLOSED = 77


REPLIES: Mapping[int, Kind] = MappingProxyType({int(kind): kind for kind in Kind if kind >= Kind.HELLO})
"""What a box may send, by number. Numbers of kinds that are no more stay free: between two known ones may be none."""

RAW = frozenset({Kind.STDIN, Kind.CHUNK, Kind.STDOUT, Kind.STDERR, Kind.DATA})
"""Kinds whose payload is bytes and not JSON."""

_RAW_NUMBERS = frozenset(map(int, RAW))
"""To look one up by its number costs a tenth of doing so by its kind, whose hash is Python's."""

ERROR_CODES = frozenset(
    {
        "bad_request",
        "not_found",
        "not_a_file",
        "not_a_directory",
        "not_permitted",
        "no_space",
        "no_inodes",
        "busy",
        "no_recorder",
        "failed",
    }
)
"""Every code an ERROR frame may carry."""


MESSAGE_CHARACTERS = 500
"""Longest text of the box that one of our messages quotes; the runner sends 300."""


def plain(text: str, most: int = MESSAGE_CHARACTERS) -> str:
    """Returns text of the box as something that can be printed: what steers a terminal or is no UTF-8, as escapes."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text[:most]
    )


@dataclass(frozen=True, slots=True)
class Frame:
    """One message; `payload` is raw, `json()` reads it where the kind says so."""

    kind: Kind
    ref: int
    payload: bytes

    def json(self) -> dict[str, Any]:
        """Returns the payload as an object; raises RunnerProtocolError where it is none."""
        try:
            value: object = _read_json(self.payload) if self.payload else {}
        except (ValueError, RecursionError) as error:
            raise RunnerProtocolError(f"{self.kind.name} frame is not JSON") from error
        if not isinstance(value, dict):
            raise RunnerProtocolError(f"{self.kind.name} frame is not a JSON object")
        return cast("dict[str, Any]", value)


_encode_json = json.JSONEncoder(separators=(",", ":")).encode


# Each run is one of each: pydantic's JSON takes a third of the standard library's time where no cache is warm
# (measured). What it refuses are surrogates by themselves, which are how Python holds names that are no UTF-8.
to_json(
    None
)  # the first call imports, which a process can no more that has become a user who reads no library


def _read_json(payload: bytes) -> object:
    try:
        return from_json(payload, cache_strings="keys")
    except ValueError:
        return json.loads(payload)


def _written_json(value: Mapping[str, Any]) -> bytes:
    try:
        return to_json(value)
    except PydanticSerializationError:
        return _encode_json(value).encode()


def encode(kind: Kind, ref: int, payload: bytes | Mapping[str, Any] = b"") -> bytes:
    """Returns one frame as bytes. A mapping is written as compact JSON; raises RequestError for one too long."""
    if isinstance(payload, bytes):
        return HEADER.pack(kind, ref, len(payload)) + payload
    data = _written_json(payload)
    if len(data) > MAX_JSON:
        raise RequestError(
            f"a {kind.name} request of {len(data)} bytes is longer than the {MAX_JSON} allowed"
        )
    return HEADER.pack(kind, ref, len(data)) + data


def encode_chunks(kind: Kind, ref: int, data: bytes) -> Iterator[bytes]:
    """Yields `data` as raw frames of at most MAX_DATA bytes; nothing for no data."""
    for start in range(0, len(data), MAX_DATA):
        yield encode(kind, ref, data[start : start + MAX_DATA])


class Decoder:
    """Cuts a byte stream from the box into frames; holds at most one frame of it, and copies one that is whole once."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._broken = False

    def feed(self, data: bytes | bytearray | memoryview) -> Iterator[Frame]:
        """Yields the frames that `data` completes; raises RunnerProtocolError for one that may not be.

        The generator must be used up before the next call.
        """
        if self._broken:
            raise RunnerProtocolError("the stream is broken already")
        with memoryview(data) as fresh:
            start = 0
            while start < len(fresh):
                try:
                    frame, start = (self._completed if self._buffer else self._whole)(fresh, start)
                except RunnerProtocolError:
                    self._broken = True
                    raise
                if frame is not None:
                    yield frame

    def _whole(self, fresh: memoryview, start: int) -> tuple[Frame | None, int]:
        """Returns the frame that begins at `start`, and where it ends; holds what is only a part of one."""
        body = start + HEADER.size
        if body <= len(fresh):
            kind, ref, length = _checked(*HEADER.unpack_from(fresh, start))
            end = body + length
            if end <= len(fresh):
                return Frame(kind, ref, bytes(fresh[body:end])), end
        self._buffer += fresh[start:]
        return None, len(fresh)

    def _completed(self, fresh: memoryview, start: int) -> tuple[Frame | None, int]:
        """Returns the frame whose beginning is held, and where it ends; holds more of it where it is not whole."""
        held = self._buffer
        if len(held) < HEADER.size:
            start = self._hold(fresh, start, HEADER.size)
            if len(held) < HEADER.size:
                return None, start
        kind, ref, length = _checked(*HEADER.unpack_from(held))
        start = self._hold(fresh, start, HEADER.size + length)
        if len(held) < HEADER.size + length:
            return None, start
        with memoryview(held) as view:
            payload = bytes(view[HEADER.size :])
        held.clear()
        return Frame(kind, ref, payload), start

    def _hold(self, fresh: memoryview, start: int, size: int) -> int:
        """Holds bytes until they are `size`, as far as there are some; returns where the next ones are."""
        end = start + size - len(self._buffer)
        self._buffer += fresh[start:end]
        return min(end, len(fresh))

    @property
    def pending(self) -> int:
        """Bytes held of a frame that is not complete."""
        return len(self._buffer)


def _checked(kind: int, ref: int, length: int) -> tuple[Kind, int, int]:
    known = REPLIES.get(kind)
    if known is None:
        raise RunnerProtocolError(f"unknown frame kind {kind}")
    raw = kind in _RAW_NUMBERS
    if length > (MAX_DATA if raw else MAX_REPLY_JSON):
        raise RunnerProtocolError(f"{known.name} frame of {length} bytes is too long")
    if raw and not length:
        # Frames that carry nothing would count against no limit, however many came.
        raise RunnerProtocolError(f"{known.name} frame is empty")
    return known, ref, length
