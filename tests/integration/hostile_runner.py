"""A program that stands in the runner's place and breaks one rule of the protocol, told by its name in argv.

It speaks on descriptor 0, as a runner does. All it does otherwise is what an honest runner would do with a program that
prints `hi` and has one file in out/. Standard library only: it also runs inside a box.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any, Never

HEADER = struct.Struct("!BII")

PING, PREPARE, RUN, PUT, CHUNKS_END, GET, COLLECT, FACTS = 1, 2, 3, 7, 9, 10, 11, 13
HELLO, PONG, DONE, STDOUT, STDERR, ENDED, DATA, FILES, END = 64, 65, 66, 68, 69, 70, 71, 72, 73
FACTS_REPLY, ERROR, STDIN_CREDIT, STDIN_CLOSED = 74, 75, 76, 77

ENDING = {
    "exit": 0,
    "signal": None,
    "stopped": None,
    "oom_kills": 0,
    "pids_max": 0,
    "disk_full": False,
    "inodes_full": False,
    "stdout_bytes": 3,
    "stderr_bytes": 0,
    "wall": 0.1,
    "cpu": 0.1,
    "max_rss": 1,
    "clean": True,
}

MIB = 1 << 20
LONGEST = 256 * 1024


def frame(kind: int, ref: int, body: bytes | Mapping[str, Any] = b"") -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return HEADER.pack(kind, ref, len(data)) + data


def say(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(0, view) :]


def for_ever(data: bytes) -> Never:
    while True:
        say(data)


def silent() -> Never:
    while os.read(0, MIB):
        pass
    os._exit(0)


def trickling(data: bytes) -> Never:
    for number in range(1 << 30):
        say(data[number % len(data)].to_bytes(1, "big"))
        time.sleep(0.02)
    os._exit(0)


def hanging_up(data: bytes) -> Never:
    say(data)
    os._exit(0)


def file(ref: int, path: object = "out/a", size: object = 3, take: object = 3) -> bytes:
    return frame(FILES, ref, {"files": [[path, size, 0o644, take]]})


def whole(ref: int, path: object) -> bytes:
    return file(ref, path) + frame(DATA, ref, b"bad")


def end(ref: int, **more: object) -> bytes:
    return frame(END, ref, {"limits_hit": [], "skipped": {}, **more})


def files(ref: int, *paths: object) -> None:
    """Sends files of these names, and the end."""
    say(b"".join(whole(ref, path) for path in paths) + end(ref))


def ended(ref: int, **more: object) -> None:
    say(frame(STDOUT, ref, b"hi\n") + frame(ENDED, ref, {**ENDING, **more}))


def two_ends(ref: int) -> None:
    ended(ref)
    ended(ref)
    silent()


def files_without_end(ref: int) -> None:
    for number in range(1_000_000):
        say(file(ref, f"out/{number:09}", 0, 0))


def bytes_without_end(ref: int) -> None:
    say(file(ref, size=2**62, take=MIB))
    for_ever(frame(DATA, ref, bytes(LONGEST)))


def file_without_end(ref: int) -> None:
    say(file(ref))
    silent()


def one_file(ref: int) -> None:
    files(ref, "out/a")


DEEP = b'{"exit":' + b"[" * 200_000
LONG_NUMBER = b'{"exit":' + b"9" * 200_000 + b"}"
MANY_KEYS = b"{" + b",".join(b'"%d":{}' % number for number in range(20_000)) + b"}"

RUNS: dict[str, Callable[[int], object]] = {
    "run: output without end": lambda ref: for_ever(frame(STDOUT, ref, bytes(LONGEST))),
    "run: both outputs without end": lambda ref: for_ever(
        frame(STDOUT, ref, b"a") + frame(STDERR, ref, b"b")
    ),
    "run: output of another": lambda ref: for_ever(frame(STDOUT, ref + 7, bytes(LONGEST))),
    "run: output of none": lambda ref: for_ever(frame(STDOUT, 0, bytes(LONGEST))),
    "run: zeros without end": lambda ref: for_ever(bytes(MIB)),
    "run: noise without end": lambda ref: for_ever(os.urandom(MIB)),
    "run: pongs without end": lambda ref: for_ever(frame(PONG, ref, b"{}") * 1000),
    "run: room for input without end": lambda ref: for_ever(frame(STDIN_CREDIT, ref, b'{"bytes": 1}') * 1000),
    "run: room for a lot of input": lambda ref: say(frame(STDIN_CREDIT, ref, b'{"bytes": 1e400}')),
    "run: input closed without end": lambda ref: for_ever(frame(STDIN_CLOSED, ref) * 1000),
    "run: facts without end": lambda ref: for_ever(frame(FACTS_REPLY, ref, b"{}") * 1000),
    "run: a frame of four gigabytes": lambda ref: for_ever(HEADER.pack(STDOUT, ref, 0xFFFFFFFF) + bytes(MIB)),
    "run: the longest frame that is no JSON": lambda ref: say(frame(ENDED, ref, b" " * LONGEST)),
    "run: lists in lists": lambda ref: say(frame(ENDED, ref, DEEP)),
    "run: a number of many digits": lambda ref: say(frame(ENDED, ref, LONG_NUMBER)),
    "run: an object of many keys": lambda ref: say(frame(ENDED, ref, MANY_KEYS)),
    "run: an error of all that fits": lambda ref: say(
        frame(ERROR, ref, {"code": "failed", "message": "\x1b[2J\u202e" * 12_000})
    ),
    "run: an error that names a class": lambda ref: say(
        frame(ERROR, ref, {"code": "SystemExit", "message": "builtins"})
    ),
    "run: silence": lambda ref: silent(),
    "run: one byte at a time": lambda ref: trickling(frame(STDOUT, ref, b"x")),
    "run: half an end": lambda ref: hanging_up(frame(ENDED, ref, ENDING)[:-3]),
    "run: half a header": lambda ref: hanging_up(HEADER.pack(ENDED, ref, 9)[:5]),
    "run: nothing": lambda ref: hanging_up(b""),
    "run: two ends": two_ends,
    "run: fewer bytes than were sent": lambda ref: ended(ref, stdout_bytes=2),
    "run: an impossible number of bytes": lambda ref: ended(ref, stdout_bytes=2**70),
    "run: less than no time": lambda ref: ended(ref, wall=-1),
    "run: time that is no number": lambda ref: say(
        frame(STDOUT, ref, b"hi\n")
        + frame(ENDED, ref, json.dumps(ENDING).replace('"wall": 0.1', '"wall": NaN').encode())
    ),
    "run: two endings": lambda ref: ended(ref, signal=9),
    "run: no ending": lambda ref: ended(ref, exit=None),
    "run: a reason that is none": lambda ref: ended(ref, exit=None, stopped="by hand"),
}

COLLECTS: dict[str, Callable[[int], object]] = {
    "collect: a name above": lambda ref: files(ref, "../outside"),
    "collect: a name above, within": lambda ref: files(ref, "out/../../outside"),
    "collect: a name from the root": lambda ref: files(ref, "/tmp/outside"),
    "collect: a name with NUL": lambda ref: files(ref, "out/a\0b"),
    "collect: an empty name": lambda ref: files(ref, ""),
    "collect: a name of dots": lambda ref: files(ref, "out/."),
    "collect: a name that is a number": lambda ref: files(ref, 7),
    "collect: a name of a lone surrogate": lambda ref: files(ref, "out/\ud800"),
    "collect: a long name": lambda ref: files(ref, "out/" + "n" * 300),
    "collect: a deep name": lambda ref: files(ref, "out/" + "d/" * 90 + "x"),
    "collect: a name that nobody asked for": lambda ref: files(ref, "work/secret"),
    "collect: a file twice": lambda ref: files(ref, "out/a", "out/a"),
    "collect: a file below a file": lambda ref: files(ref, "out/a", "out/a/b"),
    "collect: more files than asked for": lambda ref: files(ref, *(f"out/{n:06}" for n in range(2000))),
    "collect: files without end": files_without_end,
    "collect: more bytes than announced": lambda ref: say(file(ref) + frame(DATA, ref, b"more")),
    "collect: bytes without end": bytes_without_end,
    "collect: bytes of no file": lambda ref: say(frame(DATA, ref, b"x")),
    "collect: a size that cannot be": lambda ref: say(file(ref, size=2**64, take=3)),
    "collect: a size below zero": lambda ref: say(file(ref, size=-1, take=-1)),
    "collect: more of a file than it has": lambda ref: say(file(ref, size=3, take=4)),
    "collect: more than was asked for in all": lambda ref: say(file(ref, size=2**40, take=2**40)),
    "collect: rows that are none": lambda ref: say(frame(FILES, ref, {"files": ["out/a", 3, 0o644, 3]})),
    "collect: a row too short": lambda ref: say(frame(FILES, ref, {"files": [["out/a", 3]]})),
    "collect: no rows": lambda ref: say(frame(FILES, ref, {"files": None})),
    "collect: rows without end": lambda ref: for_ever(frame(FILES, ref, {"files": []}) * 1000),
    "collect: files that are not sent": lambda ref: say(
        frame(FILES, ref, {"files": [[f"out/{name}", 3, 0, 3] for name in "abc"]})
        + frame(DATA, ref, b"bad")
        + end(ref)
    ),
    "collect: a file that never ends": file_without_end,
    "collect: half a file": lambda ref: hanging_up(file(ref) + frame(DATA, ref, b"x")),
    "collect: a list of skipped": lambda ref: say(end(ref, skipped=["out/a"])),
    "collect: limits that are no list": lambda ref: say(end(ref, limits_hit="collected_files")),
}

FACTS_TOLD = ("uid", "gid", "groups", "no_new_privs", "seccomp", "interfaces", "cgroup", "mounts", "rlimits")

HELLOS: dict[str, Callable[[int], object]] = {
    "hello: silence": lambda ref: silent(),
    "hello: nothing": lambda ref: hanging_up(b""),
    "hello: noise without end": lambda ref: for_ever(os.urandom(MIB)),
    "hello: text of a program": lambda ref: for_ever(b"Traceback (most recent call last):\n" * 1000),
    "hello: without end": lambda ref: for_ever(frame(HELLO, 0, {"protocol": int(sys.argv[2])}) * 1000),
    "hello: of the next version": lambda ref: say(frame(HELLO, 0, {"protocol": int(sys.argv[2]) + 1})),
    "hello: of a version that is no number": lambda ref: say(frame(HELLO, 0, {"protocol": "x" * 200_000})),
    "hello: one byte at a time": lambda ref: trickling(frame(HELLO, 0, {"protocol": int(sys.argv[2])})[:-1]),
    "hello: half": lambda ref: hanging_up(frame(HELLO, 0, {"protocol": int(sys.argv[2])})[:-1]),
    "hello: facts that are none": lambda ref: say(
        frame(HELLO, 0, {"protocol": int(sys.argv[2]), "facts": dict.fromkeys(FACTS_TOLD, "\x1b[2J" * 1000)})
    ),
    "hello: another word first": lambda ref: say(frame(PONG, 0, b"{}")),
}

HONEST = "honest"

BEHAVIOURS = (HONEST, *HELLOS, *RUNS, *COLLECTS)


def heard() -> Iterator[tuple[int, int, bytes]]:
    """Yields what the host asks for."""
    kept = bytearray()
    while data := os.read(0, MIB):
        kept += data
        while len(kept) >= HEADER.size:
            kind, ref, length = HEADER.unpack_from(kept)
            if len(kept) < HEADER.size + length:
                break
            body = bytes(kept[HEADER.size : HEADER.size + length])
            del kept[: HEADER.size + length]
            yield kind, ref, body


def serve(behaviour: str, protocol: int) -> None:
    """Answers every request honestly but the kind that the behaviour is about."""
    if behaviour in HELLOS:
        HELLOS[behaviour](0)
        silent()
    say(frame(HELLO, 0, {"protocol": protocol}))
    sizes: dict[int, int] = {}
    for kind, ref, body in heard():
        if kind == RUN:
            RUNS.get(behaviour, ended)(ref)
        elif kind == COLLECT:
            COLLECTS.get(behaviour, one_file)(ref)
        elif kind in {PREPARE, CHUNKS_END}:
            say(frame(DONE, ref, {"size": sizes.pop(ref, 0)}))
        elif kind == 8:  # CHUNK
            sizes[ref] = sizes.get(ref, 0) + len(body)
        elif kind == PING:
            say(frame(PONG, ref))


if __name__ == "__main__":
    try:
        serve(sys.argv[1], int(sys.argv[2]))
    except OSError:
        os._exit(0)  # the host hung up
