"""The frames of the channel: spelt again from sandbox_skills/engines/wire.py, compared by a test."""

from __future__ import annotations

from .lean import struct

VERSION = "1"
PROTOCOL = 4
HEADER = struct.Struct("!BII")
MAX_DATA = 256 * 1024
MAX_JSON = 2 * 1024 * 1024
INITIAL_CREDIT = 4 * 1024 * 1024
STDIN_WINDOW = 1024 * 1024


class Kind:
    """Every frame there is, by number; the host's are below 64."""

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


RAW = frozenset({Kind.STDIN, Kind.CHUNK, Kind.STDOUT, Kind.STDERR, Kind.DATA})
