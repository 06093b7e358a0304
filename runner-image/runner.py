"""The runner: the one trusted program in every box. Standard library only, Python 3.11 to 3.13.

Theory of operation
===================

An engine starts this file as pid 1 of a box and holds the other end of its stdin and stdout, the *channel*, or
listens at a socket of the box's machine, which is the faster one (`--channel`). All that
happens in the box is a frame on the channel: `sandbox_skills/engines/wire.py` has the table. Everything else in the
box, most of all the skill's command, is hostile and has the same uid as the runner.

**The channel is ours alone.** First of all, stdin and stdout are moved to close-on-exec descriptors, and the runner
makes itself undumpable, so that no program in the box can reach them through `/proc/1/fd` or read its memory.

**One thread, one loop.** `Runner.serve` waits in epoll for the channel, the pipes of the runs and SIGCHLD. Nothing in
it blocks: children's pipes are not read while the host is slow, standard input is queued as far as the host was told
that there is room for it, and files travel in turns of one chunk (`Transfer`), as far as the host's credit goes. The
channel itself is read all the time, because a cancel or the end of the host comes that way. When the channel ends, so
does everything in the box.

**A run** (`Run`) is a root process with a session of its own and all that descends from it. It is over when its root
has ended or a limit has stopped it. Then every process left of it is killed with SIGKILL and buried, the pipes are
emptied of what they hold, and one ENDED goes out, in that order. What the program did to stay alive (a new session, a
double fork, SIGSTOP, ignored signals, a pipe held open) does not matter to a SIGKILL sent by pid 1: orphans become
its children, and "no child is left" is an exact answer. Where other runs live, or where the runner is not pid 1
(tests, the `local` engine), `kill(-1)` would hit bystanders, so `/proc` is searched for whatever descends from the
runner and cannot be traced to a run that still lives (`Reaper`). Shared memory, semaphores and queues that outlive
processes are removed behind the ENDED of the last run that lives (`clear_ipc`).

**A terminal** (`Terminal`), where a run asks for one, takes the place of its three pipes and controls its session. It
changes nothing about the end: what the terminal's hang-up does not end, SIGKILL does.

**A recording** (`recorder.py`, beside this file), where a run asks for one, watches the calls of its processes from
here. It decides nothing, and takes no limit away.

**A fork server** (`fork_server.py`, beside this file), where runs ask for one, starts Python programs faster. It is the
only other process that lives on from run to run, and what is left of a run costs it its life.

**Files** are reached from a descriptor of the workspace, name by name, and no link is ever followed (`Workspace`), so
that a skill which swaps a directory for a link gets an error instead of a file from somewhere else.

**Errors.** A request that cannot be met is answered with ERROR and a code. A stream that cannot be frames is the end:
the runner kills all and exits with 3. It exits with 0 when the host closes the channel.
"""
# ruff: noqa: PTH100, PTH108, PTH110, PTH118, PTH116, PTH119, PTH123, PTH208
# No pathlib, typing, dataclasses or socket: together they would add half to the start of every box. Nor json, signal
# and enum, nor re before it is needed, which took a quarter of it, nor collections, functools, contextlib, ctypes and
# struct, which took another (measured): what they stand on is enough.

from __future__ import annotations

import _ctypes
import _json
import errno
import fcntl
import gc
import math
import os
import resource
import select
import stat
import sys
import time
from itertools import accumulate, chain, islice

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    import signal
    import struct
    import subprocess
    from collections import deque
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import suppress
    from ctypes import CDLL, c_int, c_long
    from functools import partial
    from types import FrameType, TracebackType
    from typing import Any, Never

if not TYPE_CHECKING:
    import _signal as signal
    import _struct as struct
    from _collections import deque
    from _functools import partial

    class suppress:  # noqa: N801  the one of contextlib
        """Goes on behind the block when one of these errors ends it."""

        def __init__(self, *errors: type[BaseException]) -> None:
            self._errors = errors

        def __enter__(self) -> None:
            """Does nothing."""

        def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
            return kind is not None and issubclass(kind, self._errors)

    class c_int(_ctypes._SimpleCData):  # noqa: N801, SLF001  the one of ctypes, and so is the next
        """An int of C."""

        _type_ = "i"

    class c_long(_ctypes._SimpleCData):  # noqa: N801, SLF001
        """A long of C."""

        _type_ = "l"

    class Function(_ctypes.CFuncPtr):
        """A function of the C library that returns an int and keeps its errno for us."""

        _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
        _restype_ = c_int

    class CDLL:
        """A library, with its functions as attributes; the name None is this program with its C library."""

        def __init__(self, name: str | None, *, use_errno: bool) -> None:
            assert use_errno
            self._handle = _ctypes.dlopen(name, 0)  # where a Function looks for itself

        def __getattr__(self, name: str) -> Function:
            function = Function((name, self))
            setattr(self, name, function)
            return function

# --- Protocol: spelt again from sandbox_skills/engines/wire.py, compared by a test ----------------------------------

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

# --- Limits ---------------------------------------------------------------------------------------------------------

OUTGOING_HIGH = 1024 * 1024
"""Bytes queued for the host above which no more is read for it: four full frames keep any channel busy."""

STDIN_STEP = STDIN_WINDOW // 4
"""Bytes of standard input that are granted at once: four messages for each window, and none for a short input."""

TERMINAL_SIDE = 1000
"""Most rows or columns of a terminal: no screen has more, and programs allocate what they multiply to."""

PIPE_BYTES = 1024 * 1024
"""Pipe size of a program that floods: what an unprivileged process may ask for, a sixteenth of the wake-ups."""

FINAL_READS = 32
"""Reads of one pipe after its writers were killed: twice what the largest pipe holds in MAX_DATA pieces."""

KILL_SECONDS = 5.0
"""How long killing may take. Only a process stuck in the kernel needs more; waiting longer would not help it."""

DEATH_MILLISECONDS = 10
"""How long to wait for SIGCHLD after a kill before looking again: it is lost where another process is the parent."""

STOP_ROUNDS = 16
"""Searches that only stop what they find: enough to overtake a fork bomb, after which it is killed anyway."""

EMPTY_ROUNDS = 2
"""Searches in a row that must find nothing beside living runs: one alone can miss a child whose parent just died."""

CPU_TICK = 0.05
"""Shortest time between two looks at the CPU time of a run, in seconds: bounds the overshoot, costs below 1%."""

UNREAD_SECONDS = 1.0
"""Between two looks at what runs leave unread of the kernel: a processor fills 25 to 50 MiB in that time (measured)."""

UNREAD_BYTES = 8 * 1024 * 1024
"""Answers of the kernel that may wait unread: those of 40 sockets that are full; who reads them has some KiB."""

PROBE_SECONDS = 10.0
"""Time for the deep probe; its slowest part, three interpreters side by side, takes under a second."""

WALK_ENTRIES = 65_536
"""Directory entries one collection looks at: four times the inodes of a default workspace."""

WALK_DEPTH = 64
"""Directories one collection goes down; each level holds a descriptor, and a box has 1,024."""

WALK_TURN = 256
"""Entries looked at before the loop gets its turn: well under a millisecond."""

PATH_BYTES = 4096
"""Longest path that is reported, PATH_MAX of Linux; the host could not open a longer one either."""

SKIPPED_PATHS = 100
SKIPPED_CHARACTERS = 32 * 1024
"""What END lists of skipped files: JSON may need six bytes a character, and a reply has 256 KiB."""

MESSAGE_CHARACTERS = 300
"""Longest text of an ERROR: one line for a person."""

OOM_SCORE = 1000
"""The highest oom_score_adj: the kernel takes a program of the skill before it takes the runner."""

CONTAINER_SCORE = 500
"""What engines give the container: the lowest that a runner can go back to where the host sets that floor."""

BATCH_FILES = 64
"""Small files that are sent as one: a header and a turn for each would take longer than its bytes."""

BATCH_BYTES = MAX_DATA
"""What the files of a batch have together, and more than a small file has: one frame."""

BATCH_CHARACTERS = 16 * 1024
"""What their paths have together: far below the longest JSON, even where each character is an escape."""

TRANSFER_STEPS = 64
"""Frames one transfer may send in a turn: small files go in batches, and a cancel is still seen at once."""


class Refused(Exception):  # noqa: N818  it is an answer to the host, and not an error of the runner
    """A request that is answered with ERROR; `code` is one of the protocol's."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message[:MESSAGE_CHARACTERS]


class BrokenChannelError(Exception):
    """The host sent what cannot be a frame; nothing after it can be understood."""


ERRNO_CODES = {
    errno.ENOENT: "not_found",
    errno.ENOTDIR: "not_a_directory",
    errno.EISDIR: "not_a_file",
    errno.ENXIO: "not_a_file",
    errno.ELOOP: "not_permitted",
    errno.EACCES: "not_permitted",
    errno.EPERM: "not_permitted",
    errno.EROFS: "not_permitted",
    errno.ENOSPC: "no_space",
    errno.EDQUOT: "no_space",
    errno.EFBIG: "no_space",
    errno.ENAMETOOLONG: "bad_request",
}


def refusal(error: Exception) -> Refused:
    """Returns the answer to the host for whatever went wrong with a request."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, OSError) and error.errno is not None:
        return Refused(ERRNO_CODES.get(error.errno, "failed"), error.strerror or str(error))
    return Refused("failed", f"{type(error).__name__}: {error}")


class JsonRules:
    """What the scanner of `_json` wants to know: the rules that `json.loads` has."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float = parse_constant = float
    parse_int = int
    memo: dict[str, str] = {}  # noqa: RUF012  the scanner empties it


def not_json(value: object) -> object:
    """Refuses what JSON has no word for."""
    raise TypeError(f"{type(value).__name__} is not JSON")


rules: Any = JsonRules
scan_json = _json.make_scanner(rules)
encode_json = _json.make_encoder(
    None, not_json, _json.encode_basestring_ascii, None, ":", ",", False, False, True
)


def pack(value: Mapping[str, object]) -> bytes:
    """Returns a JSON payload, in ASCII, so that a name that is no text cannot break it."""
    return "".join(encode_json(value, 0)).encode()


def unpack(payload: bytes) -> object:
    """Returns what a JSON payload without spaces around it says; raises ValueError, RecursionError."""
    text = payload.decode()
    try:
        value, end = scan_json(text, 0)
    except (StopIteration, SystemError):  # it has no error of its own while `json` is not loaded
        raise ValueError("the payload is not JSON") from None
    if end != len(text):
        raise ValueError("the payload has more than one value")
    return value


class Fields:
    """A JSON object from the host; every reading method raises Refused for a value of the wrong type."""

    def __init__(self, payload: bytes) -> None:
        try:
            self._values: Any = unpack(payload) if payload else {}
        except (ValueError, RecursionError):
            raise Refused("bad_request", "the payload is not JSON") from None
        if type(self._values) is not dict:
            raise Refused("bad_request", "the payload is not a JSON object")

    def _get(self, name: str, *kinds: type) -> Any:  # noqa: ANN401  each caller names the type
        value = self._values.get(name)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise Refused("bad_request", f"{name} is missing or of the wrong type")
        return value

    def has(self, name: str) -> bool:
        """Tells whether the field is there and not null."""
        return self._values.get(name) is not None

    def text(self, name: str) -> str:
        """Returns a string without NUL."""
        value: str = self._get(name, str)
        return checked_text(value)

    def texts(self, name: str) -> list[str]:
        """Returns a list of strings."""
        values: list[str] = self._get(name, list)
        check_texts(values)
        return values

    def pairs(self, name: str) -> list[tuple[str, str]]:
        """Returns a list of pairs of strings."""
        values: list[Any] = self._get(name, list)
        if any(type(pair) is not list or len(pair) != 2 for pair in values):  # noqa: PLR2004  a pair has two
            raise Refused("bad_request", f"{name} is not a list of pairs")
        pairs = [(first, second) for first, second in values]
        check_texts(chain.from_iterable(pairs))
        return pairs

    def mapping(self, name: str) -> dict[str, str]:
        """Returns an object of strings."""
        values: dict[str, str] = self._get(name, dict)
        check_texts(chain(values, values.values()))
        return values

    def flag(self, name: str) -> bool:
        """Returns a boolean."""
        value: bool = self._get(name, bool)
        return value

    def count(self, name: str) -> int:
        """Returns an integer that is not negative."""
        value: int = self._get(name, int)
        if value < 0:
            raise Refused("bad_request", f"{name} is negative")
        return value

    def seconds(self, name: str) -> float:
        """Returns a finite number that is not negative."""
        value = float(self._get(name, int, float))
        if not math.isfinite(value) or value < 0:
            raise Refused("bad_request", f"{name} is not a length of time")
        return value

    def within(self, name: str) -> Fields:
        """Returns the object inside."""
        inner = Fields(b"")
        inner._values = self._get(name, dict)
        return inner


def checked_text(value: str) -> str:
    """Returns `value` if it is a string that the kernel can take; raises Refused."""
    check_texts((value,))
    return value


def check_texts(values: Iterable[str]) -> None:
    """Raises Refused unless all are strings that the kernel can take; joined, which looks at all of them at once."""
    try:
        text = "".join(values)
    except TypeError:
        raise Refused("bad_request", "a text is of the wrong type") from None
    if "\0" in text:
        raise Refused("bad_request", "a text contains NUL")
    if not text.isascii():
        try:
            os.fsencode(text)
        except UnicodeEncodeError:
            raise Refused("bad_request", "a text cannot be encoded") from None


# --- Channel --------------------------------------------------------------------------------------------------------


class Channel:
    """The byte stream to the host, as frames. Neither reading nor writing blocks."""

    WRITE_BUFFERS = 128
    """Buffers for one writev: 64 frames, far below the kernel's 1,024."""

    def __init__(self, source: int, sink: int) -> None:
        self.source = source
        self.sink = sink
        self.queued = 0
        self._outgoing: deque[bytes | memoryview] = deque()
        self._incoming = bytearray()
        for descriptor in (source, sink):
            os.set_blocking(descriptor, False)

    def send(self, kind: int, ref: int, payload: bytes = b"") -> None:
        """Queues a frame; header and payload stay apart, so that nothing is copied."""
        self._outgoing.append(HEADER.pack(kind, ref, len(payload)))
        if payload:
            self._outgoing.append(payload)
        self.queued += HEADER.size + len(payload)

    def flush(self) -> None:
        """Writes as much as the host takes now; raises OSError when it is gone."""
        while self._outgoing:
            batch = list(islice(self._outgoing, self.WRITE_BUFFERS))
            try:
                written = os.writev(self.sink, batch)
            except BlockingIOError:
                return
            self._forget(written)

    def _forget(self, written: int) -> None:
        self.queued -= written
        while written:
            first = self._outgoing.popleft()
            if len(first) > written:
                self._outgoing.appendleft(memoryview(first)[written:])
                return
            written -= len(first)

    def receive(self, buffer: bytearray) -> bool:
        """Reads once through `buffer`; returns False when the host has closed the channel."""
        try:
            count = os.readv(self.source, [buffer])
        except BlockingIOError:
            return True
        except ConnectionResetError:
            return False
        self._incoming += memoryview(buffer)[:count]
        return count > 0

    def frames(self) -> Iterator[tuple[int, int, bytes]]:
        """Yields the frames that are complete; raises BrokenChannelError for one that may not be."""
        offset = 0
        try:
            while len(self._incoming) - offset >= HEADER.size:
                number, ref, length = HEADER.unpack_from(self._incoming, offset)
                kind = self._checked(number, length)
                start = offset + HEADER.size
                if len(self._incoming) < start + length:
                    return
                offset = start + length
                with memoryview(self._incoming) as view:
                    payload = bytes(view[start:offset])
                yield kind, ref, payload
        finally:
            del self._incoming[:offset]

    @staticmethod
    def _checked(number: int, length: int) -> int:
        if not Kind.PING <= number <= Kind.SIGNAL:
            raise BrokenChannelError(f"unknown frame kind {number}")
        if length > (MAX_DATA if number in RAW else MAX_JSON):
            raise BrokenChannelError(f"frame of kind {number} of {length} bytes")
        return number


# --- Files ----------------------------------------------------------------------------------------------------------

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READABLE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def segments(path: str) -> list[str]:
    """Returns the names of a path below the workspace; raises Refused for one that leaves it or names nothing."""
    names = [name for name in path.split("/") if name not in {"", "."}]
    if path.startswith("/") or ".." in names:
        raise Refused("not_permitted", f"{shown(path)} is not below the workspace")
    if not names:
        raise Refused("bad_request", "the path is empty")
    return names


def prefixes(path: str) -> tuple[str, ...]:
    """Returns the directories on the way to a path and the path itself, from the top."""
    known = PREFIXES.get(path)
    if known is None:
        known = tuple(accumulate(segments(path), lambda above, name: f"{above}/{name}"))
        if len(PREFIXES) >= PREFIXES_KEPT:
            PREFIXES.clear()
        PREFIXES[path] = known
    return known


PREFIXES: dict[str, tuple[str, ...]] = {}
PREFIXES_KEPT = 64
"""Paths that `prefixes` remembers: more than the places of a run."""


def shown(path: str) -> str:
    """Returns a path as text that is always valid, with what is not UTF-8 as escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def is_text(path: str) -> bool:
    """Tells whether a path is valid UTF-8 and short enough to be reported."""
    try:
        return len(path.encode()) <= PATH_BYTES
    except UnicodeEncodeError:
        return False


class OpenDirectory:
    """The descriptor of a directory, closed behind the block."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __enter__(self) -> int:
        return self._descriptor

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)


class Workspace:
    """The tree below one directory. Every walk starts at its descriptor and follows no link."""

    def __init__(self, root: str) -> None:
        self._root = os.open(root, DIRECTORY)
        self._asked: tuple[tuple[str, ...], tuple[tuple[str, str], ...]] = ((), ())
        self._seen: frozenset[object] = frozenset()

    def make(self, dirs: Sequence[str], links: Sequence[tuple[str, str]]) -> None:
        """Makes the places that a run is to find; those that `look` has seen since are there."""
        seen, self._seen = self._seen, frozenset()
        self._asked = tuple(dirs), tuple(links)
        for path in dict.fromkeys(prefix for wanted in dirs for prefix in prefixes(wanted)):
            if path not in seen:
                self._ensure(path)
        for link in links:
            if link not in seen:
                self.link(*link)

    def look(self) -> None:
        """Notes which of the places last asked for are there, while nothing runs and nobody waits.

        A file that is uploaded meanwhile takes the place of no directory, and that of a link it keeps. Most runs ask
        for the same places: looking at them took 0.2 ms of a warm run's 3 (measured).
        """
        dirs, links = self._asked
        paths = dict.fromkeys(prefix for wanted in dirs for prefix in prefixes(wanted))
        there = {path for path in paths if self._is_directory(path)}
        self._seen = frozenset(path for path in there if there.issuperset(prefixes(path)))
        self._seen |= frozenset(link for link in links if self._is_link(*link))

    def directory(self, names: Sequence[str], *, make: bool = False) -> OpenDirectory:
        """Opens a directory for the time of the block; `make` creates what is missing on the way."""
        descriptor = os.dup(self._root)
        try:
            for name in names:
                below = self.enter(descriptor, name, make=make)
                os.close(descriptor)
                descriptor = below
        except BaseException:
            os.close(descriptor)
            raise
        return OpenDirectory(descriptor)

    @staticmethod
    def enter(directory: int, name: str, *, make: bool = False) -> int:
        """Opens one directory in another; raises Refused for a link."""
        try:
            return os.open(name, DIRECTORY, dir_fd=directory)
        except FileNotFoundError:
            if not make:
                raise
        except NotADirectoryError:
            if stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
                raise Refused("not_permitted", f"{shown(name)} is a link") from None
            raise
        with suppress(FileExistsError):  # somebody was faster; the second look says what it is
            os.mkdir(name, 0o755, dir_fd=directory)
        return os.open(name, DIRECTORY, dir_fd=directory)

    def open_file(self, path: str) -> int:
        """Opens a regular file for reading; raises Refused or OSError for anything else."""
        *above, name = segments(path)
        with self.directory(above) as directory:
            return open_regular(directory, name)[0]

    def _ensure(self, path: str) -> None:
        """Makes a directory that is not there, below one that is; costs one look at one that is."""
        if self._is_directory(path):
            return
        *above, name = segments(path)
        with self.directory(above) as directory:
            try:
                os.mkdir(name, 0o755, dir_fd=directory)
            except FileExistsError:
                os.close(self.enter(directory, name))

    def _is_directory(self, path: str) -> bool:
        try:
            return stat.S_ISDIR(os.stat(path, dir_fd=self._root, follow_symlinks=False).st_mode)
        except OSError:
            return False

    def link(self, path: str, target: str) -> None:
        """Makes a link, in place of another link but of nothing else."""
        *above, name = segments(path)
        if self._is_link(path, target):
            return
        with self.directory(above, make=True) as directory:
            try:
                os.symlink(target, name, dir_fd=directory)
            except FileExistsError:
                self._relink(directory, name, target)

    def _is_link(self, path: str, target: str) -> bool:
        try:
            same = os.readlink(path, dir_fd=self._root) == target
        except OSError:
            return False
        return same and all(map(self._is_directory, prefixes(path)[:-1]))

    @staticmethod
    def _relink(directory: int, name: str, target: str) -> None:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode) and os.readlink(name, dir_fd=directory) != target:
            os.unlink(name, dir_fd=directory)
            os.symlink(target, name, dir_fd=directory)


class Upload:
    """One file on its way in: it has another name in the same directory until it is whole."""

    def __init__(self, workspace: Workspace, path: str, mode: int) -> None:
        *above, self._name = segments(path)
        self._mode = mode & 0o777
        self._partial = f".put-{os.urandom(8).hex()}"
        self.size = 0
        with workspace.directory(above, make=True) as directory:
            self._file = os.open(self._partial, NEW_FILE, 0o600, dir_fd=directory)
            self._directory = os.dup(directory)

    def write(self, data: bytes) -> None:
        """Adds to the file; raises Refused where the workspace is full."""
        view = memoryview(data)
        while view:
            try:
                written = os.write(self._file, view)
            except OSError as error:
                raise self._explained(error) from error
            view = view[written:]
            self.size += written

    def _explained(self, error: OSError) -> Refused:
        room = os.fstatvfs(self._file)
        if error.errno == errno.ENOSPC and room.f_files and not room.f_ffree and room.f_bavail:
            return Refused("no_inodes", "no inodes left")
        return refusal(error)

    def finish(self) -> None:
        """Gives the file its mode and name."""
        try:
            os.fchmod(self._file, self._mode)
            os.rename(self._partial, self._name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        except OSError:
            self.abort()
            raise
        self._close()

    def abort(self) -> None:
        """Leaves nothing behind."""
        with suppress(OSError):  # the box may have removed it
            os.unlink(self._partial, dir_fd=self._directory)
        self._close()

    def _close(self) -> None:
        os.close(self._file)
        os.close(self._directory)


class Credit:
    """How many bytes of files the host is ready to take."""

    def __init__(self) -> None:
        self.left = INITIAL_CREDIT

    def read(self, descriptor: int, limit: int) -> Iterator[bytes]:
        """Yields a file up to `limit` bytes or its end, and nothing (b"") whenever the credit is used up."""
        while limit > 0:
            if not self.left:
                yield b""
                continue
            data = os.read(descriptor, min(limit, MAX_DATA, self.left))
            if not data:
                return
            limit -= len(data)
            self.left -= len(data)
            yield data

    def share(self, data: bytes) -> Iterator[bytes]:
        """Yields bytes that were read before, as `read` does those of a file."""
        while data:
            if not self.left:
                yield b""
                continue
            part, data = data[: self.left], data[self.left :]
            self.left -= len(part)
            yield part


class Transfer:
    """A GET or COLLECT under way: frames drawn one by one; None among them gives up the turn."""

    def __init__(self, frames: Iterator[tuple[int, bytes] | None], credit: Credit) -> None:
        self._frames = frames
        self._credit = credit
        self.starved = False

    def grant(self, count: int) -> None:
        """Adds credit."""
        self._credit.left += count
        self.starved = False

    def turn(self, channel: Channel, ref: int) -> bool:
        """Queues frames until the turn is over; returns False when none are left."""
        for _ in range(TRANSFER_STEPS):
            try:
                frame = next(self._frames)
            except StopIteration:
                return False
            if frame is None:
                self.starved = not self._credit.left
                return True
            channel.send(frame[0], ref, frame[1])
            if channel.queued > OUTGOING_HIGH:
                return True
        return True


def download(descriptor: int, max_bytes: int, credit: Credit) -> Iterator[tuple[int, bytes] | None]:
    """Yields the frames of a GET and closes the file. What is added to the file meanwhile is not sent."""
    try:
        size = os.fstat(descriptor).st_size
        sent = 0
        for data in credit.read(descriptor, min(size, max_bytes)):
            sent += len(data)
            yield (Kind.DATA, data) if data else None
        whole = sent if sent < max_bytes else size  # it may have shrunk
        yield Kind.END, pack({"size": whole, "truncated": whole > sent})
    finally:
        os.close(descriptor)


# --- Collection -----------------------------------------------------------------------------------------------------

GLOB_PIECE = r"\*+|\?|\[!?+\]?+[^\]]*\]|."
CLASS_ITEM = r"(.)-(.)|(.)"


def _class_regex(body: str) -> str:
    import re  # noqa: PLC0415  most boxes collect nothing

    negated = body.startswith("!")
    items = (
        f"{re.escape(match[1])}-{re.escape(match[2])}" if match[1] else re.escape(match[3])
        for match in re.finditer(CLASS_ITEM, body[negated:], re.DOTALL)
    )
    return f"[{'^' if negated else ''}{''.join(items)}]"


def _piece_regex(piece: str) -> str:
    import re  # noqa: PLC0415  as above

    if piece == "?":
        return "."
    if len(piece) > 1 and piece[0] == "[":
        return _class_regex(piece[1:-1])
    return re.escape(piece)


def segment_regex(segment: str) -> re.Pattern[str]:
    """Returns what a name must match in full. Each star takes as little as it can and never gives back.

    That is enough to find a match where there is one, and keeps the time linear for a hostile pattern.
    """
    import re  # noqa: PLC0415  as above

    between = [""]
    for piece in re.findall(GLOB_PIECE, segment, re.DOTALL):
        if piece[0] == "*":
            between.append("")
        else:
            between[-1] += _piece_regex(piece)
    text, *rest = between
    if rest:
        text += "".join(f"(?>.*?{part})" for part in rest[:-1]) + ".*" + rest[-1]
    try:
        return re.compile(text, re.DOTALL)
    except re.error:
        raise Refused("bad_request", f"pattern {shown(segment)} cannot be read") from None


DEEP = None
"""The segment `**`: any number of directories."""

if TYPE_CHECKING:
    Segment = str | re.Pattern[str] | None
    Steps = tuple[Segment, ...]


def compile_pattern(pattern: str) -> Steps:
    """Returns a pattern as the segments that a path has to pass; raises Refused for one that cannot be read."""
    steps = tuple(_segment(name) for name in segments(pattern))
    return (*steps, segment_regex("*")) if steps[-1] is DEEP else steps


def _segment(name: str) -> Segment:
    if name == "**":
        return DEEP
    return segment_regex(name) if any(sign in name for sign in "*?[") else name


def advance(patterns: Iterable[Steps], name: str) -> set[Steps]:
    """Returns what is left of each pattern after a path took one more name; an empty rest is a match."""
    ahead: set[Steps] = set()
    waiting = list(patterns)
    while waiting:
        steps = waiting.pop()
        if not steps:
            continue
        head, rest = steps[0], steps[1:]
        if head is None:  # which DEEP is
            ahead.add(steps)
            waiting.append(rest)
        elif head == name if isinstance(head, str) else head.fullmatch(name):
            ahead.add(rest)
    return ahead


class CollectLimits:
    """Ceilings of one collection."""

    def __init__(self, fields: Fields) -> None:
        self.files = fields.count("files")
        self.file_bytes = fields.count("file_bytes")
        self.total_bytes = fields.count("total_bytes")


class Batch:
    """Small files that are sent together, already read."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, int, int, int]] = []
        self.contents: list[bytes] = []
        self._bytes = 0
        self._characters = 0

    def takes(self, path: str, size: int) -> bool:
        """Tells whether there is room for one more; an empty batch has room for any small one."""
        too_large = self._bytes + size > BATCH_BYTES or self._characters + len(path) > BATCH_CHARACTERS
        return not self.rows or not (too_large or len(self.rows) >= BATCH_FILES)

    def add(self, row: tuple[str, int, int, int], content: bytes) -> None:
        """Adds a file as it was read, which may be shorter than it was a moment before."""
        path, _, mode, take = row
        length = len(content)
        self.rows.append(row if length == take else (path, length, mode, length))
        self.contents.append(content)
        self._bytes += length
        self._characters += len(path)


class OpenFolder:
    """The directory of the last file that was opened: most files of a collection lie beside each other."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._path: str | None = None
        self._descriptor = -1

    def open_file(self, path: str) -> tuple[int, os.stat_result]:
        """Opens a regular file for reading; raises Refused or OSError for anything else."""
        folder, _, name = path.rpartition("/")
        if folder != self._path:
            self.close()
            with self._workspace.directory(folder.split("/") if folder else ()) as directory:
                self._descriptor = os.dup(directory)
            self._path = folder
        return open_regular(self._descriptor, name)

    def close(self) -> None:
        """Closes the directory."""
        if self._path is not None:
            self._path = None
            os.close(self._descriptor)


def open_regular(directory: int, name: str) -> tuple[int, os.stat_result]:
    """Opens a regular file for reading, following no link; raises Refused or OSError for anything else."""
    descriptor = os.open(name, READABLE, dir_fd=directory)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise Refused("not_a_file", f"{shown(name)} is not a regular file")
    return descriptor, status


class Collection:
    """Finds the regular files that match, then sends them sorted by path."""

    def __init__(
        self, workspace: Workspace, patterns: Iterable[str], limits: CollectLimits, credit: Credit
    ) -> None:
        self._workspace = workspace
        self._patterns = {compile_pattern(pattern) for pattern in patterns}
        self._limits = limits
        self._credit = credit
        self._entries = 0
        self._found: list[str] = []
        self._sent = 0
        self._bytes_left = limits.total_bytes
        self._limits_hit: set[str] = set()
        self._skipped: dict[str, str] = {}
        self._skipped_room = SKIPPED_CHARACTERS
        self._folder = OpenFolder(workspace)
        self._batch = Batch()

    def frames(self) -> Iterator[tuple[int, bytes] | None]:
        """Yields FILES and DATA, many small files or one large one at a time, then END."""
        with self._workspace.directory(()) as root:
            yield from self._walk(root, "", self._patterns, 0)
        try:
            for path in sorted(self._found, key=str.encode):
                if not self._batched(path):
                    yield from self._send(path)
            yield from self._send_batch()
        finally:
            self._folder.close()
        end = {"files": self._sent, "limits_hit": sorted(self._limits_hit), "skipped": self._skipped}
        yield Kind.END, pack(end)

    def _skip(self, path: str, reason: str) -> None:
        text = shown(path)
        if len(self._skipped) < SKIPPED_PATHS and len(text) <= self._skipped_room:
            self._skipped[text] = reason
            self._skipped_room -= len(text)

    def _walk(self, directory: int, prefix: str, patterns: set[Steps], depth: int) -> Iterator[None]:
        below: list[tuple[str, set[Steps]]] = []
        for name, mode in self._listing(directory, patterns):
            self._entries += 1
            if self._entries > WALK_ENTRIES:
                self._limits_hit.add("collected_files")
                return
            if not self._entries % WALK_TURN:
                yield None
            ahead = advance(patterns, name)
            if stat.S_ISDIR(mode):
                below.append((name, ahead - {()}))
            elif () in ahead:
                self._judge(prefix + name, mode)
        for name, ahead in below:
            if ahead:
                yield from self._descend(directory, prefix + name, ahead, depth + 1)

    def _listing(self, directory: int, patterns: set[Steps]) -> Iterator[tuple[str, int]]:
        """Yields names and file types: only the names asked for, where no pattern has a wildcard here."""
        heads = {steps[0] for steps in patterns}
        literal = [head for head in heads if isinstance(head, str)]
        if len(literal) < len(heads):
            yield from _scan(directory)
            return
        for name in literal:
            with suppress(OSError):
                yield name, os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode

    def _descend(self, directory: int, path: str, patterns: set[Steps], depth: int) -> Iterator[None]:
        if depth > WALK_DEPTH:
            self._limits_hit.add("collected_files")
            return
        try:
            below = self._workspace.enter(directory, os.path.basename(path))
        except (OSError, Refused):
            self._skip(path, "unreadable")
            return
        try:
            yield from self._walk(below, path + "/", patterns, depth)
        finally:
            os.close(below)

    def _judge(self, path: str, mode: int) -> None:
        if not is_text(path):
            self._skip(path, "name")
        elif stat.S_ISLNK(mode):
            self._skip(path, "link")
        elif not stat.S_ISREG(mode):
            self._skip(path, "special")
        else:
            self._found.append(path)

    def _batched(self, path: str) -> bool:
        """Reads a small file into the batch, where both have room for it; all else is for `_send`."""
        if self._sent >= self._limits.files:
            return False
        try:
            descriptor, status = self._folder.open_file(path)
        except (OSError, Refused):
            return False
        try:
            size = status.st_size
            fits = size <= min(BATCH_BYTES, self._limits.file_bytes, self._bytes_left)
            if not fits or not self._batch.takes(path, size):
                return False
            self._sent += 1
            self._bytes_left -= size
            mode = stat.S_IMODE(status.st_mode) & 0o777
            self._batch.add((path, size, mode, size), os.read(descriptor, size) if size else b"")
            return True
        finally:
            os.close(descriptor)

    def _send(self, path: str) -> Iterator[tuple[int, bytes] | None]:
        if self._sent >= self._limits.files:
            self._leave(path, "collected_files")
            return
        try:
            descriptor, status = self._folder.open_file(path)
        except FileNotFoundError:  # gone since the walk, so it is no output
            return
        except (OSError, Refused):
            self._skip(path, "unreadable")
            return
        try:
            yield from self._send_open(path, descriptor, status)
        finally:
            os.close(descriptor)

    def _send_open(
        self, path: str, descriptor: int, status: os.stat_result
    ) -> Iterator[tuple[int, bytes] | None]:
        take = min(status.st_size, self._limits.file_bytes)
        if take > self._bytes_left:
            self._leave(path, "collected_bytes")
            return
        self._sent += 1
        self._bytes_left -= take
        row = path, status.st_size, stat.S_IMODE(status.st_mode) & 0o777, take
        if not self._batch.takes(path, take):
            yield from self._send_batch()
        if take <= BATCH_BYTES:
            self._batch.add(row, os.read(descriptor, take) if take else b"")
            return
        yield Kind.FILES, pack({"files": [row]})
        for data in self._credit.read(descriptor, take):
            yield (Kind.DATA, data) if data else None

    def _send_batch(self) -> Iterator[tuple[int, bytes] | None]:
        batch, self._batch = self._batch, Batch()
        if batch.rows:
            yield Kind.FILES, pack({"files": batch.rows})
            for data in self._credit.share(b"".join(batch.contents)):
                yield (Kind.DATA, data) if data else None
            yield None

    def _leave(self, path: str, limit: str) -> None:
        self._limits_hit.add(limit)
        self._skip(path, limit)


def _scan(directory: int) -> Iterator[tuple[str, int]]:
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_symlink():
                yield entry.name, stat.S_IFLNK
            elif entry.is_dir(follow_symlinks=False):
                yield entry.name, stat.S_IFDIR
            elif entry.is_file(follow_symlinks=False):
                yield entry.name, stat.S_IFREG
            else:
                yield entry.name, stat.S_IFIFO


# --- Processes ------------------------------------------------------------------------------------------------------

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class Process:
    """One line of /proc/PID/stat. `cpu` is in seconds and includes the children it has waited for."""

    __slots__ = ("cpu", "dead", "parent", "pid", "session", "started")

    def __init__(self, pid: int, line: bytes) -> None:
        fields = line[line.rindex(b")") + 2 :].split()  # the name before it may hold anything
        self.pid = pid
        # A process whose first thread has ended looks like a zombie, and lives as long as its other threads.
        self.dead = fields[0] in {b"Z", b"X"} and int(fields[17]) <= 1
        self.parent = int(fields[1])
        self.session = int(fields[3])
        self.cpu = sum(map(int, fields[11:15])) / CLOCK_TICKS
        self.started = int(fields[19])

    @classmethod
    def read(cls, pid: int) -> Process | None:
        """Returns the process as it is now, or None when it is gone."""
        try:
            with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
                return cls(pid, file.read())
        except (OSError, ValueError):
            return None


class ProcessTable:
    """All processes at one moment, more or less: they go on while it is read."""

    def __init__(self) -> None:
        self._processes: dict[int, Process] = {}
        for name in os.listdir("/proc"):
            if name.isdigit():
                self._look(int(name))

    def _look(self, pid: int) -> Process | None:
        process = Process.read(pid)
        if process:
            self._processes[pid] = process
        return process

    def _lineage(self, process: Process) -> Iterator[Process]:
        """Yields the process and those above it, as far up as they are known."""
        seen: set[int] = set()
        current: Process | None = process
        while current and current.pid not in seen:
            seen.add(current.pid)
            yield current
            above = self._processes.get(current.parent)
            if not above and current.parent:  # the parent died during the reading: see who adopted the child
                fresh = self._look(current.pid)
                above = self._processes.get(fresh.parent) if fresh else None
            current = above

    def descendants(self, ancestor: int, roots: Iterable[int]) -> Iterator[tuple[Process, int | None]]:
        """Yields what descends from `ancestor`, with the root that it can be traced to by parents or session."""
        known = frozenset(roots)
        for process in list(self._processes.values()):
            root = None
            for above in self._lineage(process):
                if above.pid == ancestor:
                    if process.pid != ancestor:
                        yield process, root
                    break
                root = root or next((pid for pid in (above.pid, above.session) if pid in known), None)


def send_signal(process: Process, number: int) -> None:
    """Signals that very process, never another that has got its number since."""
    with suppress(OSError):
        try:
            handle = os.pidfd_open(process.pid)
        except OSError as error:
            if error.errno == errno.ESRCH:
                return
            os.kill(process.pid, number)  # a kernel or a filter without pidfd
            return
        try:
            again = Process.read(process.pid)
            if again and again.started == process.started:
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


class Reaper:
    """Buries every child that ends and kills what must not live on."""

    def __init__(
        self, wakeup: int, on_death: Callable[[int, int, resource.struct_rusage, int | None], None]
    ) -> None:
        self._wakeup = select.poll()
        self._wakeup.register(wakeup, select.POLLIN)
        self._wakeup_descriptor = wakeup
        self._on_death = on_death
        self._alone = os.getpid() == 1
        self._buried = 0
        self.tell_session = False

    def drain(self) -> None:
        """Empties the pipe that SIGCHLD writes to."""
        with suppress(BlockingIOError):
            while len(os.read(self._wakeup_descriptor, 4096)) == 4096:  # noqa: PLR2004  a full read: there may be more
                pass

    def bury(self) -> bool:
        """Buries the children that have ended; returns whether any live."""
        try:
            while True:
                chosen, session = self._peek() if self.tell_session else (-1, None)
                pid, status, usage = os.wait4(chosen, os.WNOHANG)
                if not pid:
                    return True
                self._buried += 1
                self._on_death(pid, status, usage, session)
        except ChildProcessError:
            return False

    @staticmethod
    def _peek() -> tuple[int, int | None]:
        """Returns the child to bury next and its session, which cannot be read any more afterwards."""
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        process = Process.read(found.si_pid) if found else None
        return (found.si_pid if found else -1), (process.session if process else None)

    def clear(self, spared: Iterable[int], trusted: Sequence[int] = ()) -> bool:
        """Kills and buries everything that cannot be traced to a root in `spared`; returns whether that was all.

        The trusted ones of a fork server live on beside others, and where nothing else is left.
        """
        roots = frozenset(spared)
        if trusted and not roots and self._alone_with(trusted):
            return True
        roots = roots.union(trusted) if roots else roots
        deadline = time.monotonic() + KILL_SECONDS
        hunt = Hunt(roots)
        while self.bury():
            if roots and hunt.sure:
                return True
            if time.monotonic() > deadline:
                return False
            if self._kill_all() if self._alone and not roots else hunt.round():
                self._wakeup.poll(DEATH_MILLISECONDS)
                self.drain()
        return True

    def _alone_with(self, trusted: Iterable[int]) -> bool:
        """Tells whether no process lives but the runner and these.

        What one look at `/proc` misses was born during it, below one that ended during it; and of those that end, one
        has the runner for a parent.
        """
        self.bury()
        before = self._buried
        pids = {int(name) for name in os.listdir("/proc") if name.isdigit()}
        self.bury()
        return pids == {os.getpid(), *trusted} and before == self._buried

    @staticmethod
    def _kill_all() -> bool:
        with suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        return True


class Hunt:
    """The search for what is left of a run, in rounds: first stop all, so that nothing multiplies, then kill."""

    def __init__(self, spared: frozenset[int]) -> None:
        self._spared = spared
        self._stopped: set[tuple[int, int]] = set()
        self._rounds = 0
        self._empty = 0

    @property
    def sure(self) -> bool:
        """Whether nothing was found often enough."""
        return self._empty >= EMPTY_ROUNDS

    def round(self) -> bool:
        """Searches and strikes once; returns whether anything is about to die."""
        prey = [
            process
            for process, root in ProcessTable().descendants(os.getpid(), self._spared)
            if root is None and not process.dead
        ]
        self._rounds += 1
        self._empty = 0 if prey else self._empty + 1
        fresh = [process for process in prey if (process.pid, process.started) not in self._stopped]
        if fresh and self._rounds <= STOP_ROUNDS:
            self._strike(fresh, signal.SIGSTOP)
            self._stopped.update((process.pid, process.started) for process in fresh)
            return False
        self._strike(prey, signal.SIGKILL)
        return bool(prey)

    @staticmethod
    def _strike(processes: Iterable[Process], number: int) -> None:
        for process in processes:
            send_signal(process, number)


class Counter:
    """A number that a cgroup keeps in a file, read many times. None where there is no such file."""

    def __init__(self, field: bytes, *paths: str) -> None:
        self._field = field
        self._descriptor: int | None = None
        for path in paths:
            with suppress(OSError):
                self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                return

    def read(self) -> int | None:
        """Returns the number as it is now."""
        if self._descriptor is None:
            return None
        with suppress(OSError, ValueError):
            words = os.pread(self._descriptor, 4096, 0).split()
            return int(words[words.index(self._field) + 1])
        return None


def unread_answers() -> int:
    """Returns the bytes that the kernel holds for netlink sockets of the box, which it counts for nobody."""
    with suppress(OSError, ValueError, IndexError), open("/proc/self/net/netlink", "rb") as file:
        return sum(int(line.split()[4]) for line in islice(file, 1, None))
    return 0


def difference(now: int | None, before: int | None) -> int | None:
    """Returns how much a counter has grown, None where it cannot be read."""
    return None if now is None or before is None else now - before


class Counters:
    """What the box's cgroup counts of the limits that programs ran into."""

    def __init__(self) -> None:
        root = "/sys/fs/cgroup"
        self._oom = Counter(b"oom_kill", f"{root}/memory.events", f"{root}/memory/memory.oom_control")
        self._pids = Counter(b"max", f"{root}/pids.events", f"{root}/pids/pids.events")
        self._resting: tuple[int | None, int | None] | None = None

    def read(self) -> tuple[int | None, int | None]:
        """Returns the out-of-memory kills and the refused forks so far."""
        return self._oom.read(), self._pids.read()

    def look(self) -> None:
        """Reads them for the next run, while nothing runs that they could count."""
        self._resting = self.read()

    def at_start(self) -> tuple[int | None, int | None]:
        """Returns what `read` does, or what `look` has read since the last start."""
        resting, self._resting = self._resting, None
        return resting or self.read()


# --- Runs -----------------------------------------------------------------------------------------------------------

NOT_FOUND = 127
NOT_EXECUTABLE = 126
"""What a shell exits with for a command that is not there, and for one that cannot be executed."""


def terminal_size(fields: Fields) -> tuple[int, int]:
    """Returns rows and columns; raises Refused for a size that no terminal has."""
    size = fields.count("rows"), fields.count("cols")
    if not all(1 <= side <= TERMINAL_SIDE for side in size):
        raise Refused("bad_request", "no terminal has that size")
    return size


RECORDED = frozenset({"network", "files", "programs"})
"""What can be recorded of a run."""


class Order:
    """A RUN as the host sent it, checked."""

    unprepared: str | None = None

    def __init__(self, fields: Fields) -> None:
        self.fork = fields.has("fork") and fields.flag("fork")
        self.argv = fields.texts("argv")
        self.env = fields.mapping("env")
        self.cwd = fields.text("cwd")
        self.stream = fields.flag("stream")
        self.stdin = fields.text("stdin")
        self.tty = terminal_size(fields.within("tty")) if fields.has("tty") else None
        self.record = fields.texts("record") if fields.has("record") else []
        limits = fields.within("limits")
        self.wall = limits.seconds("wall")
        self.cpu = limits.seconds("cpu") if limits.has("cpu") else None
        self.output = limits.count("output")
        self.stdout = self.output if self.stream else limits.count("stdout")
        self.stderr = self.output if self.stream else limits.count("stderr")
        if not self.argv or not self.argv[0]:
            raise Refused("bad_request", "argv is empty")
        if self.stdin not in {"none", "pipe"}:
            raise Refused("bad_request", "stdin is neither none nor pipe")
        if self.tty and self.stdin == "none":
            raise Refused("bad_request", "a terminal has an input")
        if not RECORDED.issuperset(self.record) or (self.tty and self.record):
            raise Refused("bad_request", "record has what cannot be recorded")
        if any(not key or "=" in key for key in self.env):
            raise Refused("bad_request", "env has a name that cannot be one")


SIGNALS = {"INT": signal.SIGINT, "TERM": signal.SIGTERM}
"""What the host may send beside KILL: to interrupt, and to ask for an end."""


class CannotStartError(Exception):
    """The command cannot be executed: `code` is what a shell would exit with."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


def start_failure(order: Order, error: OSError) -> CannotStartError:
    """Tells in the words of a shell why a command did not start."""
    command, reason = order.argv[0], error.strerror or str(error)
    if error.filename == order.cwd and error.filename != command:
        return CannotStartError(NOT_EXECUTABLE, f"{order.cwd}: {reason}")
    if error.errno not in {errno.ENOENT, errno.ENOTDIR}:
        return CannotStartError(NOT_EXECUTABLE, f"{command}: {reason}")
    if "/" not in command:
        return CannotStartError(NOT_FOUND, f"{command}: command not found")
    if os.path.exists(os.path.join(order.cwd, command)):
        reason = "cannot execute: required file not found"  # a script whose interpreter is missing
    return CannotStartError(NOT_FOUND, f"{command}: {reason}")


def spawn(order: Order, stdin: int, stdout: int, stderr: int) -> int:
    """Starts the command as the leader of a session of its own; returns its pid."""
    dup = os.POSIX_SPAWN_DUP2
    return spawn_with(order, [(dup, stdin, 0), (dup, stdout, 1), (dup, stderr, 2)])


def spawn_on_terminal(order: Order, terminal: str) -> int:
    """Starts the command as the leader of a session that the terminal controls; returns its pid.

    A session leader gets its controlling terminal by opening it.
    """
    dup = os.POSIX_SPAWN_DUP2
    return spawn_with(order, [(os.POSIX_SPAWN_OPEN, 0, terminal, os.O_RDWR, 0), (dup, 0, 1), (dup, 0, 2)])


def beside(name: str) -> str:
    """Returns the path of another file of the image, which is bytecode where this one is."""
    return os.path.abspath(__file__).replace("runner.py", f"{name}.py")


def loaded(name: str) -> Any:  # noqa: ANN401  a module that the type checkers know as a file of its own
    """Returns a module beside this one; most boxes do without."""
    if found := sys.modules.get(name):
        return found
    from importlib.util import module_from_spec, spec_from_file_location  # noqa: PLC0415  as above

    spec = spec_from_file_location(name, beside(name))
    if not spec or not spec.loader:
        raise Refused("failed", f"there is no {name} in this image")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[name] = module
    return module


def spawn_recorded(order: Order, skills: str, streams: tuple[int, int, int]) -> tuple[int, Any]:
    """Starts the command as `spawn` does, in view of a recorder; returns its pid and that."""
    module = loaded("recorder")
    try:
        start = module.Start(order.argv, order.env, order.cwd, executables(order), order.record)
        pid, listener = start.run(streams)
    except module.CannotRecordError as error:
        raise Refused("no_recorder", f"runs cannot be recorded here: {error}") from error
    except OSError as error:
        raise start_failure(order, error) from error
    return pid, module.Recorder(listener, skills)


def spawn_with(order: Order, streams: Sequence[tuple[Any, ...]]) -> int:
    """Starts the command with descriptors of its own; raises CannotStartError.

    By posix_spawn, which copies no page tables and has no Python to run: 0.15 ms less than Popen (measured).
    """
    try:
        os.chdir(order.cwd)  # posix_spawn has no argument for it, and the runner itself is nowhere
        return spawn_first(executables(order), order, streams)
    except OSError as error:
        raise start_failure(order, error) from error


def spawn_first(paths: Iterable[str], order: Order, streams: Sequence[tuple[Any, ...]]) -> int:
    """Starts the first of the files that can be executed; raises OSError where none can."""
    failure: OSError = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    start = partial(os.posix_spawn, file_actions=streams, setsid=True, setsigdef=IGNORED_BY_PYTHON)
    for path in paths:
        try:
            os.stat(path)  # a process that cannot execute it would be made in vain
            return start(path, order.argv, order.env)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            failure = error
    raise failure


IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that programs are used to die of."""


def executables(order: Order) -> list[str]:
    """Returns the files that the command may mean, as the order's own PATH has it."""
    command = order.argv[0]
    if "/" in command:
        return [command]
    folders = order.env.get("PATH", os.defpath).split(":")
    return [f"{folder}/{command}" if folder else command for folder in folders]


def executable(order: Order) -> str:
    """Returns the file that the command means, empty where there is none."""
    return next((path for path in executables(order) if os.access(path, os.X_OK)), "")


class Forks:
    """The fork server of this box: none until a run asks for it, and none again when it has ended."""

    def __init__(self) -> None:
        self._server: Any = None
        self._wanted = False

    def pids(self) -> list[int]:
        """Returns its processes, which are no run's, and waits for one that is being made."""
        if not self._server:
            return []
        self._server.settle()
        return [pid for pid in (self._server.pid, self._server.spare) if pid]

    def spawn(self, order: Order, streams: tuple[int, int, int]) -> int:
        """Starts the command as `spawn` does, as a fork where it can be one. Nothing else may run in the box."""
        self._wanted = True
        pid = 0
        if self._server and executable(order) == self._server.python:
            try:
                os.chdir(order.cwd)
            except OSError as error:
                raise start_failure(order, error) from error
            pid = self._server.start(order.argv, order.env, order.cwd, streams)
        return pid or spawn(order, *streams)

    def prepare(self) -> None:
        """Makes ready for the next run, if one has asked for it; nothing runs in the box.

        Its first time takes 15 ms (measured), in which the server becomes protected.
        """
        if not self._wanted:
            return
        try:
            if not self._server:
                with OWN_SCORE:
                    self._server = loaded("fork_server").ForkServer(beside("fork_server"), pack)
            self._server.prepare()
        except (OSError, Refused):
            self._wanted = False  # until the next run asks

    def buried(self, pid: int) -> bool:
        """Tells whether that was one of its processes, and goes on without it."""
        if not self._server or pid not in {self._server.pid, self._server.spare}:
            return False
        if pid == self._server.spare:
            self._server.spare = 0
        else:
            self._server.end()
            self._server = None
        return True


class OwnScore:
    """The runner's own oom_score_adj: the lowest it may have, and a program's for the moment in which it is started.

    A program inherits it. Raised from outside after its start, one that forks at once would leave its children the
    runner's, and the kernel would take the program before a child that hoards (seen in six of eight tries).
    """

    def __init__(self) -> None:
        self._file: int | None = None

    def open(self) -> None:
        """Takes the lowest score that the host allows; before the runner is undumpable, when the file is its own."""
        with suppress(OSError):
            self._file = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
        self._set(0)

    def __enter__(self) -> None:
        """Has the score of a program while the block lasts."""
        self._set(OOM_SCORE)

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._set(0)

    def _set(self, score: int) -> None:
        # Where 0 is refused, the score of the container stays, which is the lowest then for its programs too.
        if self._file is not None:
            for value in (score, CONTAINER_SCORE):
                with suppress(OSError):
                    os.write(self._file, b"%d" % value)
                    return


OWN_SCORE = OwnScore()


def limit_cpu(pid: int, order: Order) -> None:
    """Bounds the CPU time of a program that was just started, behind our own clock: for what that cannot trace."""
    if order.cpu is not None:
        seconds = math.ceil(order.cpu) + 1
        with suppress(OSError, ValueError, OverflowError):
            resource.prlimit(pid, resource.RLIMIT_CPU, (seconds, seconds + 1))


def warm_up() -> None:
    """Starts a program that does nothing, so that the box's first run does not pay for what only a first start pays.

    Page faults and look-ups made it 0.7 ms slower than the second (measured); here nobody waits for it.
    """
    with suppress(OSError):
        os.waitpid(os.posix_spawn("/bin/true", ("true",), {}, setsid=True), 0)


class Stdin:
    """What a program gets to read: queued, and written as far as its pipe takes it.

    The host may send what the window holds, and more as the program takes it.
    """

    def __init__(self, descriptor: int | None) -> None:
        self.descriptor = descriptor
        self.done = descriptor is None
        self.broken = False
        self._queue: deque[memoryview] = deque()
        self._ending = False
        self._window = STDIN_WINDOW
        self._taken = 0

    @property
    def waiting(self) -> bool:
        """Whether something is queued."""
        return bool(self._queue)

    def feed(self, data: bytes) -> None:
        """Adds to the queue, unless nobody reads it any more; raises BrokenChannelError for more than was granted."""
        if not data or self.done or self._ending:
            return
        if len(data) > self._window:
            raise BrokenChannelError("more STDIN than was granted")
        self._window -= len(data)
        self._queue.append(memoryview(data))

    def end(self) -> None:
        """Makes the program see the end of its input after what is queued."""
        self._ending = True

    def flush(self) -> None:
        """Writes what the pipe takes now; `done` tells that nothing will follow, `broken` that nobody reads it."""
        if self.descriptor is None or self.done:
            return
        try:
            while self._queue:
                self._advance(os.write(self.descriptor, self._queue[0]))
        except BlockingIOError:
            return
        except OSError:  # the program has closed its end, as `head` does
            self._queue.clear()
            self.broken = self.done = True
        self.done = self.done or self._ending

    def _advance(self, written: int) -> None:
        first = self._queue.popleft()
        self._taken += written
        if written < len(first):
            self._queue.appendleft(first[written:])

    def grant(self) -> int:
        """Returns how many bytes more the host may send; 0 until a message is worth it, or when it has sent all."""
        if self._ending or self._taken < STDIN_STEP:
            return 0
        granted, self._taken = self._taken, 0
        self._window += granted
        return granted

    def close(self) -> None:
        """Closes the pipe at once."""
        if self.descriptor is not None:
            os.close(self.descriptor)
        self.descriptor = None
        self.done = True
        self._queue.clear()


class Keyboard(Stdin):
    """What is typed at a terminal. Its end is a character, and the terminal stays."""

    END_OF_FILE = b"\x04"
    """^D, unless the program chose another; within a line it only hands over what was typed so far."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        self._within_line = False

    def feed(self, data: bytes) -> None:
        super().feed(data)
        if data:
            self._within_line = not data.endswith((b"\n", b"\r"))

    def end(self) -> None:
        if not self._ending and not self.done:
            self._queue.append(memoryview(self.END_OF_FILE * (2 if self._within_line else 1)))
        super().end()


class Terminal:
    """A pseudo-terminal. The program has the line, the host the control end.

    Our own descriptor of the line keeps the terminal up while the program closes and reopens it.
    """

    def __init__(self, size: tuple[int, int]) -> None:
        try:
            self.control, self._line = os.openpty()
        except (
            OSError
        ) as error:  # not for the workspace to be blamed: a full table of terminals is ENOSPC too
            raise Refused("failed", f"no terminal can be opened: {error.strerror}") from error
        try:
            os.set_blocking(self.control, False)
            self.path = os.ttyname(self._line)
            self._speak_utf8()
            self.resize(size)
        except OSError:
            os.close(self.control)
            self.close()
            raise

    def _speak_utf8(self) -> None:
        """Makes the erase key take away a character, and not a byte."""
        modes = bytearray(fcntl.ioctl(self.control, TCGETS, bytes(TERMIOS_BYTES)))
        (flags,) = struct.unpack_from("I", modes)
        struct.pack_into("I", modes, 0, flags | IUTF8)
        fcntl.ioctl(self.control, TCSETS, modes)

    def resize(self, size: tuple[int, int]) -> None:
        """Changes the size; the kernel tells the program by SIGWINCH."""
        fcntl.ioctl(self.control, TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))

    def foreground(self) -> int:
        """Returns the process group that reads from the terminal, 0 for none."""
        with suppress(OSError):
            return os.tcgetpgrp(self.control)
        return 0

    def close(self) -> None:
        """Closes the program's end; the control end belongs to the stream that reads it."""
        os.close(self._line)


TCGETS, TCSETS, TIOCSWINSZ, IUTF8 = 0x5401, 0x5402, 0x5414, 0x4000
TERMIOS_BYTES = 64
"""From the kernel's headers, as `termios` is a file of its own to load. Its structure has 36 bytes, or 44."""


class Stream:
    """One output of a program: the first `limit` bytes go to the host, the rest is counted."""

    def __init__(self, kind: int, descriptor: int, limit: int) -> None:
        self.kind = kind
        self.descriptor = descriptor
        self.total = 0
        self.ended = False
        self._left = limit
        self._widened = False

    def read(self, buffer: bytearray) -> int:
        """Reads once; returns the count, 0 where there is nothing now or, with `ended`, any more."""
        if self.ended:
            return 0
        try:
            count = os.readv(self.descriptor, [buffer])
        except BlockingIOError:
            return 0
        except OSError:  # a terminal that was hung up
            count = 0
        self.ended = not count
        self.total += count
        if self.total > PIPE_BYTES and not self._widened:
            self._widened = True
            with suppress(OSError):
                fcntl.fcntl(self.descriptor, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        return count

    def share(self, count: int) -> int:
        """Takes up to `count` bytes off what may still be sent; returns how many."""
        taken = min(count, self._left)
        self._left -= taken
        return taken


class Usage:
    """What the dead of a run have used."""

    def __init__(self) -> None:
        self.cpu = 0.0
        self.max_rss = 0

    def add(self, usage: resource.struct_rusage) -> None:
        """Adds one process with the children it had waited for."""
        self.cpu += usage.ru_utime + usage.ru_stime
        self.max_rss = max(self.max_rss, usage.ru_maxrss * 1024)


NOTHING = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
"""The standard input of a program that is given none."""


def open_pipes(count: int) -> list[tuple[int, int]]:
    """Opens all of them or none."""
    pipes: list[tuple[int, int]] = []
    try:
        for _ in range(count):
            pipes.append(os.pipe())  # noqa: PERF401  a comprehension would lose those that were opened
    except OSError:
        close_pipes(pipes)
        raise
    return pipes


def close_pipes(pipes: Iterable[tuple[int, int]]) -> None:
    """Closes both ends of each."""
    for end in sum(pipes, ()):
        os.close(end)


class PipeStock:
    """Pipes for the output of the next run, made while nobody waits for one."""

    COUNT = 2

    def __init__(self) -> None:
        self._ready: list[tuple[int, int]] = []

    def fill(self) -> None:
        """Makes what is missing."""
        if not self._ready:
            with suppress(OSError):  # the run that needs them tells of it
                self._ready = self._made()

    def take(self) -> list[tuple[int, int]]:
        """Returns two pipes whose reading ends do not block."""
        pipes, self._ready = self._ready or self._made(), []
        return pipes

    def _made(self) -> list[tuple[int, int]]:
        pipes = open_pipes(self.COUNT)
        for reading, _ in pipes:
            os.set_blocking(reading, False)
        return pipes


class Run:
    """One command from its start to its ENDED."""

    def __init__(
        self,
        ref: int,
        order: Order,
        counters: Counters,
        stock: PipeStock,
        skills: str,
        forks: Forks | None = None,
    ) -> None:
        self.ref = ref
        self.order = order
        self.usage = Usage()
        self.status: int | None = None
        self.stopped: str | None = None
        self.started = time.monotonic()
        self.cpu_due = self.started
        self._counters = counters
        self._counted = counters.at_start()
        self._left = order.output
        self._terminal: Terminal | None = None
        self._skills = skills
        self.recorder: Any = None
        with OWN_SCORE:
            if order.tty:
                self._open_terminal(order, order.tty)
            else:
                self._open_pipes(order, stock, forks)
        limit_cpu(self.pid, order)

    def _open_terminal(self, order: Order, size: tuple[int, int]) -> None:
        self._terminal = terminal = Terminal(size)
        self.streams: tuple[Stream, ...] = (Stream(Kind.STDOUT, terminal.control, order.stdout),)
        self.stdin = Stdin(None)
        try:
            self.stdin = Keyboard(os.dup(terminal.control))
            self.pid = spawn_on_terminal(order, terminal.path)
        except BaseException:
            self.close()
            raise

    def _open_pipes(self, order: Order, stock: PipeStock, forks: Forks | None) -> None:
        fed = open_pipes(1) if order.stdin == "pipe" else []
        try:
            (out, out_end), (err, err_end) = stock.take()
        except OSError:
            close_pipes(fed)
            raise
        self.stdin = Stdin(fed[0][1] if fed else None)
        self.streams = (Stream(Kind.STDOUT, out, order.stdout), Stream(Kind.STDERR, err, order.stderr))
        for _, writing in fed:
            os.set_blocking(writing, False)
        try:
            streams = fed[0][0] if fed else NOTHING, out_end, err_end
            if order.record:
                self.pid, self.recorder = spawn_recorded(order, self._skills, streams)
            else:
                self.pid = forks.spawn(order, streams) if forks else spawn(order, *streams)
        except BaseException:
            self.close()
            raise
        finally:
            for descriptor in (out_end, err_end, *(reading for reading, _ in fed)):
                os.close(descriptor)

    def close(self) -> None:
        """Closes our ends of the pipes, or the terminal."""
        self.stdin.close()
        for stream in self.streams:
            os.close(stream.descriptor)
        if self._terminal:
            self._terminal.close()
        if self.recorder:
            self.recorder.close()

    @property
    def over(self) -> bool:
        """Whether nothing of it should live any longer."""
        return self.status is not None or self.stopped is not None

    def stop(self, reason: str) -> None:
        """Makes it over, unless it already is."""
        if not self.over:
            self.stopped = reason

    def resize(self, size: tuple[int, int]) -> None:
        """Changes the size of its terminal, if it has one."""
        if self._terminal:
            self._terminal.resize(size)

    def signal(self, number: int) -> None:
        """Signals the process group of its root, and the one in the foreground of its terminal."""
        if self.over:  # its root may be buried, and the number another's
            return
        groups = {self.pid, self._terminal.foreground() if self._terminal else 0} - {0}
        for group in groups:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, number)

    def accept(self, stream: Stream, count: int) -> int:
        """Counts output; returns how much of it is sent, and stops a run that wrote too much."""
        sent = stream.share(min(count, self._left))
        self._left -= count
        if self._left < 0:
            self._left = 0
            self.stopped = self.stopped or "output"
        return sent

    def wake_at(self) -> float:
        """Returns when time alone may stop it."""
        wall = self.started + self.order.wall
        return wall if self.order.cpu is None else min(wall, self.cpu_due)

    def charge(self, cpu: float, now: float) -> None:
        """Compares the CPU seconds used with the limit, and plans the next look for when it can be reached."""
        left = (self.order.cpu or 0.0) - cpu
        if left <= 0:
            self.stop("cpu_time")
        self.cpu_due = now + max(left / (os.cpu_count() or 1), CPU_TICK)

    def ended(self, *, clean: bool, full: tuple[bool, bool]) -> dict[str, object]:
        """Returns what ENDED tells."""
        code = None if self.status is None else os.waitstatus_to_exitcode(self.status)
        if code == -signal.SIGXCPU and self.order.cpu is not None:
            self.stopped = self.stopped or "cpu_time"
        oom, pids = (
            difference(now, was) for now, was in zip(self._counters.read(), self._counted, strict=True)
        )
        return {
            "exit": code if code is not None and code >= 0 else None,
            "signal": -code if code is not None and code < 0 else None,
            "stopped": self.stopped,
            "oom_kills": oom,
            "pids_max": pids,
            "disk_full": full[0],
            "inodes_full": full[1],
            "stdout_bytes": self.streams[0].total,
            "stderr_bytes": sum(stream.total for stream in self.streams[1:]),
            "wall": time.monotonic() - self.started,
            "cpu": self.usage.cpu,
            "max_rss": self.usage.max_rss,
            "clean": clean,
            "unprepared": self.order.unprepared,
            "record": self.recorder.told() if self.recorder else None,
        }


def not_started(code: int, message: bytes) -> dict[str, object]:
    """Returns what ENDED tells of a command that could not be executed."""
    return {
        "exit": code,
        "signal": None,
        "stopped": None,
        "oom_kills": 0,
        "pids_max": 0,
        "disk_full": False,
        "inodes_full": False,
        "stdout_bytes": 0,
        "stderr_bytes": len(message),
        "wall": 0.0,
        "cpu": 0.0,
        "max_rss": 0,
        "clean": True,
    }


def full(paths: Iterable[str]) -> tuple[bool, bool]:
    """Tells whether any of the file systems has no bytes, and whether any has no inodes left."""
    found: list[os.statvfs_result] = []
    for path in paths:
        with suppress(OSError):
            found.append(os.statvfs(path))
    return any(not fs.f_bavail for fs in found), any(fs.f_files and not fs.f_ffree for fs in found)


# --- Facts: what this box is, read in under 3 ms ----------------------------------------------------------------------

LIBC = CDLL(None, use_errno=True)
PR_GET_DUMPABLE = 3
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36


def call(function: Callable[..., int], *arguments: object) -> int:
    """Calls a function of the C library; raises OSError with its errno."""
    result = function(*(c_long(value) if isinstance(value, int) else value for value in arguments))
    if result == -1:
        code = _ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def read_text(*paths: str) -> str | None:
    """Returns the first of the files that can be read, or None."""
    for path in paths:
        with suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    return None


def status_facts() -> dict[str, object]:
    """Returns capabilities, no_new_privs and the seccomp mode from /proc/self/status."""
    lines = (read_text("/proc/self/status") or "").splitlines()
    values = dict(line.split(":", 1) for line in lines if ":" in line)

    def number(name: str, base: int) -> int | None:
        return int(values[name], base) if name in values else None

    return {
        "caps": {name: number(f"Cap{name.capitalize()}", 16) for name in ("inh", "prm", "eff", "bnd", "amb")},
        "no_new_privs": number("NoNewPrivs", 10),
        "seccomp": number("Seccomp", 10),
    }


def mount_facts(paths: Iterable[str]) -> dict[str, object]:
    """Returns type, options and size of the file system that each path is on; None for a path that is not there.

    Options of the mount and of the file system stand together, without those that name the host's directories.
    """
    mounts: list[tuple[str, str, set[str]]] = []
    for line in (read_text("/proc/self/mountinfo") or "").splitlines():
        left, _, right = line.partition(" - ")
        point, options = left.split()[4:6]
        fstype, _, extra = right.split(" ", 2)
        first, *escapes = point.split("\\")  # each is three octal digits and what follows
        unescaped = first + "".join(chr(int(text[:3], 8)) + text[3:] for text in escapes)
        named = {*options.split(","), *extra.split(",")}
        mounts.append((unescaped, fstype, {option for option in named if "/" not in option}))
    return {path: _mount_of(path, mounts) for path in paths}


def _mount_of(path: str, mounts: Iterable[tuple[str, str, set[str]]]) -> dict[str, object] | None:
    above = [mount for mount in mounts if f"{path}/".startswith(f"{mount[0].rstrip('/')}/")]
    try:
        room = os.statvfs(path)
    except OSError:
        return None
    if not above:
        return None
    _, fstype, options = max(enumerate(above), key=lambda found: (len(found[1][0]), found[0]))[1]
    return {
        "fstype": fstype,
        "options": sorted(options),
        "size": room.f_blocks * room.f_frsize,
        "inodes": room.f_files,
    }


def cgroup_facts() -> dict[str, object]:
    """Returns the box's limits as its cgroup has them: bytes, tasks, microseconds; None is no limit."""
    root = "/sys/fs/cgroup"
    quota, _, period = (read_text(f"{root}/cpu.max") or "").partition(" ")
    texts = {
        "memory": read_text(f"{root}/memory.max", f"{root}/memory/memory.limit_in_bytes"),
        "pids": read_text(f"{root}/pids.max", f"{root}/pids/pids.max"),
        "cpu_quota": quota or read_text(f"{root}/cpu/cpu.cfs_quota_us"),
        "cpu_period": period or read_text(f"{root}/cpu/cpu.cfs_period_us"),
    }
    return {name: int(text) if text and text.isdigit() else None for name, text in texts.items()}


def interface_names() -> list[str] | None:
    """Returns the network interfaces, without the cost of the socket module; None where they cannot be read."""
    text = read_text("/proc/self/net/dev")
    return (
        None
        if text is None
        else sorted(line.split(":")[0].strip() for line in text.splitlines() if ":" in line)
    )


def facts(workspace: str, skills: str) -> dict[str, object]:
    """Returns what is particular to this box, for the host to compare with what it asked for."""
    limits = {"nofile": resource.RLIMIT_NOFILE, "fsize": resource.RLIMIT_FSIZE, "core": resource.RLIMIT_CORE}
    return {
        "uid": os.getuid(),
        "gid": os.getgid(),
        "groups": os.getgroups(),
        **status_facts(),
        "dumpable": LIBC.prctl(PR_GET_DUMPABLE, 0, 0, 0, 0),
        "interfaces": interface_names(),
        "mounts": mount_facts(("/", workspace, skills, "/tmp", "/dev/shm")),  # noqa: S108  looked at, not used
        "rlimits": {name: list(resource.getrlimit(number)) for name, number in limits.items()},
        "cgroup": cgroup_facts(),
        "kernel": read_text("/proc/version"),
    }


# --- Deep probe: what a program in this box can do, tried in a child that ends at once ------------------------------

SYSCALLS: dict[str, dict[str, int]] = {
    "x86_64": {"io_uring_setup": 425, "keyctl": 250, "bpf": 321, "userfaultfd": 323},
    "aarch64": {"io_uring_setup": 425, "keyctl": 219, "bpf": 280, "userfaultfd": 282},
}
CLONE_NEWUSER = 0x10000000
PTRACE_SEIZE = 0x4206
"""Attaches like PTRACE_ATTACH, but does not stop the runner where it is allowed."""
MNT_DETACH = 2
CONNECT_SECONDS = 1.0
INTERPRETER_SECONDS = 5.0
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def attempt(action: Callable[[], object]) -> str:
    """Returns "ok" for what could be done, else the name of the errno."""
    try:
        action()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    return "ok"


def reading(action: Callable[[], object]) -> object:
    """Returns what the action finds, None for nothing."""
    with suppress(OSError, LookupError, Refused):
        return action()
    return None


def raw_syscall(name: str, *arguments: object) -> None:
    """Makes a system call that the C library has no function for."""
    number = SYSCALLS.get(os.uname().machine, {}).get(name)
    if number is None:
        raise OSError(errno.ENOSYS, "the number is not known for this machine")
    call(LIBC.syscall, number, *arguments)


class Probe:
    """The attempts of a FACTS request. Runs in the forked child, where nothing it changes can do harm."""

    def __init__(self, workspace: str, skills: str, marker: str | None) -> None:
        self._workspace = workspace
        self._skills = skills
        self._marker = marker
        self._runner = os.getppid()

    def results(self) -> dict[str, object]:
        """Tries everything; what changes the child itself comes last."""
        readings: dict[str, Callable[[], object]] = {
            "interpreters": self._interpreters,
            "localhost": self._localhost,
            "passwd_name": self._passwd_name,
            "marker": self._marker_digest,
        }
        attempts: dict[str, Callable[[], object]] = {
            "loopback": self._loopback,
            "outside_v4": lambda: self._outside("192.0.2.1"),
            "outside_v6": lambda: self._outside("2001:db8::1"),
            "write_root": lambda: self._write("/usr"),
            "write_skills": lambda: self._write(self._skills),
            "af_packet": lambda: self._socket("AF_PACKET", "SOCK_RAW"),
            "af_vsock": lambda: self._socket("AF_VSOCK", "SOCK_STREAM"),
            "af_alg": lambda: self._socket("AF_ALG", "SOCK_SEQPACKET"),
            "read_pid1_mem": self._read_memory,
            "list_pid1_files": lambda: os.listdir(f"/proc/{self._runner}/fd"),
            "ptrace_pid1": lambda: call(LIBC.ptrace, PTRACE_SEIZE, self._runner, 0, 0),
            "io_uring": lambda: raw_syscall("io_uring_setup", 1, (c_int * 30)()),
            "keyctl": lambda: raw_syscall("keyctl", 0, -3, 0),
            "bpf": lambda: raw_syscall("bpf", 0, (c_int * 32)(), 128),
            "userfaultfd": lambda: raw_syscall("userfaultfd", 1),
            "mount": self._mount,
            "setuid0": lambda: os.setuid(0),
            "unshare_user": lambda: call(LIBC.unshare, CLONE_NEWUSER),
        }
        found = {name: reading(action) for name, action in readings.items()}
        return {**found, **{name: attempt(action) for name, action in attempts.items()}}

    @staticmethod
    def _loopback() -> None:
        import socket  # noqa: PLC0415  the runner itself never needs it

        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(CONNECT_SECONDS)
            with socket.create_connection(server.getsockname(), CONNECT_SECONDS) as client:
                client.sendall(b"x")
                other, _ = server.accept()
                with other:
                    other.recv(1)

    @staticmethod
    def _outside(address: str) -> None:
        import socket  # noqa: PLC0415  the runner itself never needs it

        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as client:
            client.settimeout(CONNECT_SECONDS)
            try:
                client.connect((address, 80))
            except TimeoutError:
                raise OSError(errno.ETIMEDOUT, "no answer") from None

    @staticmethod
    def _localhost() -> object:
        import socket  # noqa: PLC0415  the runner itself never needs it

        try:
            return sorted({str(found[4][0]) for found in socket.getaddrinfo("localhost", None)})
        except socket.gaierror as error:
            return error.strerror

    @staticmethod
    def _socket(family: str, kind: str) -> None:
        import socket  # noqa: PLC0415  the runner itself never needs it

        socket.socket(getattr(socket, family), getattr(socket, kind)).close()

    @staticmethod
    def _passwd_name() -> str:
        import pwd  # noqa: PLC0415  the runner itself never needs it

        return pwd.getpwuid(os.getuid()).pw_name

    def _marker_digest(self) -> str | None:
        import hashlib  # noqa: PLC0415  the runner itself never needs it

        if self._marker is None:
            return None
        with open(os.path.join(self._skills, *segments(self._marker)), "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    @staticmethod
    def _write(directory: str) -> None:
        path = os.path.join(directory, f".probe-{os.getpid()}")
        os.close(os.open(path, NEW_FILE))
        os.unlink(path)

    def _read_memory(self) -> None:
        with open(f"/proc/{self._runner}/mem", "rb", buffering=0):
            pass

    def _mount(self) -> None:
        target = os.fsencode(self._workspace)
        call(LIBC.mount, b"tmpfs", target, b"tmpfs", 0, None)
        call(LIBC.umount2, target, MNT_DETACH)

    @staticmethod
    def _interpreters() -> dict[str, str | None]:
        started = {name: Probe._start_version(name) for name in ("python3", "node", "bash")}
        return {name: Probe._version(child) for name, child in started.items()}

    @staticmethod
    def _start_version(name: str) -> subprocess.Popen[bytes] | None:
        import subprocess  # noqa: PLC0415  the runner itself never needs it

        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        with suppress(OSError):
            return subprocess.Popen(
                [name, "--version"], env={"PATH": SEARCH_PATH}, stdin=null, stdout=pipe, stderr=null
            )
        return None

    @staticmethod
    def _version(child: subprocess.Popen[bytes] | None) -> str | None:
        import subprocess  # noqa: PLC0415  the runner itself never needs it

        if not child:
            return None
        try:
            output, _ = child.communicate(timeout=INTERPRETER_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            return None
        import re  # noqa: PLC0415  as above

        found = re.search(rb"\d+(\.\d+)+", output)
        return found[0].decode() if found else None


class Investigation:
    """A FACTS request under way: the child that probes, and its answer as far as it has come."""

    def __init__(self, ref: int, workspace: str, skills: str, marker: str | None) -> None:
        self.ref = ref
        self.deadline = time.monotonic() + PROBE_SECONDS
        self._answer = bytearray()
        self.buried = False
        self.descriptor, end = os.pipe()
        os.set_blocking(self.descriptor, False)
        self.pid = os.fork()
        if not self.pid:
            self._in_child(end, workspace, skills, marker)
        os.close(end)

    @staticmethod
    def _in_child(end: int, workspace: str, skills: str, marker: str | None) -> Never:
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            os.dup2(end, 3, inheritable=False)
            os.closerange(4, resource.getrlimit(resource.RLIMIT_NOFILE)[0])  # the channel is not its business
            os.write(3, pack(Probe(workspace, skills, marker).results()))
        finally:
            os._exit(0)

    def read(self) -> bytes | None:
        """Returns the whole answer once it is there (empty where the child died), None before that."""
        with suppress(BlockingIOError):
            while data := os.read(self.descriptor, MAX_DATA):
                self._answer += data
            return bytes(self._answer)
        return None

    def close(self) -> None:
        """Ends the child, wherever it is."""
        os.close(self.descriptor)
        if not self.buried:
            os.kill(self.pid, signal.SIGKILL)


# --- What outlives processes ----------------------------------------------------------------------------------------

IPC_RMID = 0
IPC_WORDS = 64
"""Words of a buffer for what the kernel tells of System V objects: its largest structure has 28."""

MESSAGE_QUEUES = "/dev/mqueue"


class SystemV:
    """One kind of System V objects: `control` acts on one, or tells of them all.

    Commands by the kernel's headers: `info` tells how many there are in its word `count`, `stat` the id of the object
    at an index, whatever its mode.
    """

    def __init__(self, control: Callable[[int, int, object], int], info: int, count: int, stat: int) -> None:
        self._control = control
        self._info = info
        self._count = count
        self._stat = stat
        self._words = (c_int * IPC_WORDS)()

    def clear(self) -> None:
        """Removes every object; a system call of a microsecond where there is none."""
        last = self._control(0, self._info, self._words)
        if last < 0 or not self._words[self._count]:
            return
        for index in range(last + 1):
            found = self._control(index, self._stat, self._words)
            if found >= 0:
                self._control(found, IPC_RMID, None)


SYSTEM_V = (
    SystemV(LIBC.shmctl, info=14, count=0, stat=15),
    SystemV(LIBC.msgctl, info=12, count=0, stat=13),
    SystemV(lambda found, command, words: LIBC.semctl(found, 0, command, words), info=19, count=7, stat=20),
)


def clear_ipc() -> None:
    """Removes the shared memory, semaphores and queues of this IPC namespace, which must be the box's own."""
    for kind in SYSTEM_V:
        kind.clear()
    with suppress(OSError):  # no such file system here
        for name in os.listdir(MESSAGE_QUEUES):
            with suppress(OSError):
                os.unlink(f"{MESSAGE_QUEUES}/{name}")


# --- The loop -------------------------------------------------------------------------------------------------------

LONGEST_WAIT = 60.0
"""Seconds in epoll when nothing is due: any number does, epoll's own limit is 24 days."""

READS_PER_TURN = 4
"""Reads of one pipe in a turn: a flood is emptied in large steps, and the channel is still looked at."""


class Options:
    """Where the box has its directories, and the socket to speak over, if it was given one."""

    def __init__(self, arguments: Sequence[str]) -> None:
        values = {"--workspace": "/workspace", "--skills": "/skills", "--channel": ""}
        for name, value in zip(arguments[::2], arguments[1::2], strict=False):
            if name not in values:
                raise SystemExit(f"runner: unknown option {name}")
            values[name] = value
        if len(arguments) % 2:
            raise SystemExit(f"runner: {arguments[-1]} needs a value")
        self.workspace = os.path.abspath(values["--workspace"])
        self.skills = os.path.abspath(values["--skills"])
        self.channel = values["--channel"]


class Runner:
    """Ties it all together: what the host asks, what is under way, and the loop that moves it."""

    def __init__(self, options: Options, channel: Channel) -> None:
        self._options = options
        self._channel = channel
        self._workspace = Workspace(options.workspace)
        self._counters = Counters()
        self._stock = PipeStock()
        self._forks = Forks()
        self._runs: dict[int, Run] = {}
        self._uploads: dict[int, Upload] = {}
        self._transfers: dict[int, Transfer] = {}
        self._probes: dict[int, Investigation] = {}
        self._buffer = bytearray(MAX_DATA)
        self._epoll = select.epoll()
        self._watched: dict[int, Callable[[int], None]] = {}
        self._masks: dict[int, int] = {}
        self._ending = False
        self._listening = True
        self._tidied = True
        self._unread_due = math.inf
        self._reaper = Reaper(self._catch_signals(), self._on_death)
        self._watch(channel.source, select.EPOLLIN, self._on_channel)
        self._handlers: dict[int, Callable[[int, bytes], None]] = {
            Kind.PING: self._ping,
            Kind.PREPARE: self._prepare,
            Kind.RUN: self._run,
            Kind.STDIN: self._stdin,
            Kind.CLOSE_STDIN: self._close_stdin,
            Kind.KILL: self._kill,
            Kind.PUT: self._put,
            Kind.CHUNK: self._chunk,
            Kind.CHUNKS_END: self._chunks_end,
            Kind.GET: self._get,
            Kind.COLLECT: self._collect,
            Kind.CREDIT: self._credit,
            Kind.FACTS: self._facts,
            Kind.RESIZE: self._resize,
            Kind.SIGNAL: self._signal,
        }

    def _catch_signals(self) -> int:
        wakeup, end = os.pipe()
        os.set_blocking(wakeup, False)
        os.set_blocking(end, False)
        signal.set_wakeup_fd(end, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, self._note)
        if os.getpid() == 1:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # which the kernel does not deliver to pid 1
        else:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, self._end)
        self._watch(wakeup, select.EPOLLIN, self._on_signal)
        return wakeup

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        """Does nothing: having a handler is what makes the signal write to the wake-up pipe."""

    def _end(self, _number: int, _frame: FrameType | None) -> None:
        self._ending = True

    def _watch(self, descriptor: int, mask: int, callback: Callable[[int], None]) -> None:
        known = self._masks.get(descriptor)
        if known is None:
            self._epoll.register(descriptor, mask)
        elif known != mask:
            self._epoll.modify(descriptor, mask)
        self._masks[descriptor] = mask
        self._watched[descriptor] = callback

    def _unwatch(self, descriptor: int | None) -> None:
        if descriptor is not None and self._masks.pop(descriptor, None) is not None:
            del self._watched[descriptor]
            self._epoll.unregister(descriptor)

    def serve(self) -> None:
        """Says HELLO, then answers until the channel ends. Whatever ends it, nothing of the runs is left."""
        try:
            self._hello()
            self._channel.flush()
            warm_up()
            self._counters.look()
            gc.freeze()  # what is there by now stays, and need not be looked at again and again
            while not self._ending:
                self._channel.flush()
                self._tidy()
                self._stock.fill()
                self._adjust()
                for descriptor, mask in self._epoll.poll(self._patience()):
                    callback = self._watched.get(descriptor)
                    if callback:
                        callback(mask)
                self._expire()
                self._finish_runs()
                self._pump()
        except (BrokenPipeError, ConnectionResetError):
            pass  # the host is gone, which is how every box ends
        finally:
            self._clean_up()

    def _hello(self) -> None:
        version = ".".join(map(str, sys.version_info[:3]))
        hello = {"protocol": PROTOCOL, "runner": VERSION, "pid": os.getpid(), "python": version}
        found = facts(self._options.workspace, self._options.skills)
        self._channel.send(Kind.HELLO, 0, pack({**hello, "facts": found}))

    def _clean_up(self) -> None:
        for upload in self._uploads.values():
            upload.abort()
        self._reaper.clear(())

    def _adjust(self) -> None:
        """Decides what to listen to: the rules of back-pressure, in one place."""
        channel = self._channel
        if channel.queued:
            self._watch(channel.sink, select.EPOLLOUT, lambda _mask: None)
        else:
            self._unwatch(channel.sink)
        listening = channel.queued <= OUTGOING_HIGH
        if listening != self._listening:
            self._listening = listening
            for run in self._runs.values():
                self._listen(run)

    def _listen(self, run: Run) -> None:
        for stream in run.streams:
            if not self._listening or stream.ended:
                self._unwatch(stream.descriptor)
            else:
                self._watch(stream.descriptor, select.EPOLLIN, partial(self._on_output, run, stream))

    def _patience(self) -> float:
        """Returns how long to wait for an event, in seconds."""
        ready = any(not transfer.starved for transfer in self._transfers.values())
        if ready and self._channel.queued <= OUTGOING_HIGH:
            return 0
        due = [run.wake_at() for run in self._runs.values()]
        due += [probe.deadline for probe in self._probes.values()]
        due.append(self._unread_due if self._runs else math.inf)
        return min(max(min(due, default=math.inf) - time.monotonic(), 0), LONGEST_WAIT)

    # What wakes it

    def _on_channel(self, mask: int) -> None:
        if not mask & select.EPOLLIN:
            self._ending = True
            return
        self._ending = not self._channel.receive(self._buffer)
        for kind, ref, payload in self._channel.frames():
            self._handle(kind, ref, payload)

    def _handle(self, kind: int, ref: int, payload: bytes) -> None:
        try:
            self._handlers[kind](ref, payload)
        except BrokenChannelError:
            raise
        except Exception as error:  # noqa: BLE001  no request may end the runner
            self._refuse(ref, error)

    def _refuse(self, ref: int, error: Exception) -> None:
        answer = refusal(error)
        self._channel.send(Kind.ERROR, ref, pack({"code": answer.code, "message": answer.message}))

    def _on_signal(self, _mask: int) -> None:
        self._reaper.drain()
        self._reaper.bury()

    def _on_death(self, pid: int, status: int, usage: resource.struct_rusage, session: int | None) -> None:
        if self._forks.buried(pid):
            return
        for probe in self._probes.values():
            probe.buried = probe.buried or probe.pid == pid
        runs = list(self._runs.values())
        owner = runs[0] if len(runs) == 1 else next((run for run in runs if run.pid in {pid, session}), None)
        if owner:
            owner.usage.add(usage)
            if owner.pid == pid:
                owner.status = status

    def _on_notice(self, run: Run, mask: int) -> None:
        if mask & select.EPOLLIN:
            run.recorder.turn()
        else:  # nobody is left who could ask
            self._unwatch(run.recorder.descriptor)

    def _on_output(self, run: Run, stream: Stream, _mask: int) -> None:
        for _ in range(READS_PER_TURN):
            if self._channel.queued > OUTGOING_HIGH or not self._forward(run, stream):
                break
        if stream.ended:
            self._unwatch(stream.descriptor)

    def _forward(self, run: Run, stream: Stream) -> bool:
        """Reads a stream once and sends what may be sent; returns whether there may be more."""
        count = stream.read(self._buffer)
        sent = run.accept(stream, count)
        if sent:
            self._channel.send(stream.kind, run.ref, bytes(memoryview(self._buffer)[:sent]))
        return count > 0

    def _expire(self) -> None:
        now = time.monotonic()
        for run in self._runs.values():
            if now >= run.started + run.order.wall:
                run.stop("wall_time")
            elif run.order.cpu is not None and now >= run.cpu_due:
                run.charge(run.usage.cpu + self._living_cpu(run), now)
        if now >= self._unread_due and self._runs:
            self._look_for_hoards(now)
        for probe in list(self._probes.values()):
            if now >= probe.deadline:
                self._close_probe(probe)
                self._reaper.clear(self._roots(), self._forks.pids())
                self._refuse(probe.ref, Refused("failed", "the probe took too long"))

    def _look_for_hoards(self, now: float) -> None:
        """Stops all runs where they hoard what no group counts; only pid 1 has a network that is theirs alone."""
        self._unread_due = now + UNREAD_SECONDS
        if unread_answers() > UNREAD_BYTES:
            for run in self._runs.values():
                run.stop("memory")

    def _living_cpu(self, run: Run) -> float:
        """Returns the CPU seconds of a run's living processes; those nobody can trace count for the only run."""
        owners = {run.pid, None} if len(self._runs) == 1 else {run.pid}
        known = [*self._roots(), *self._forks.pids()]
        family = ProcessTable().descendants(os.getpid(), known)
        return sum(process.cpu for process, root in family if root in owners)

    def _pump(self) -> None:
        for ref, transfer in list(self._transfers.items()):
            if transfer.starved or self._channel.queued > OUTGOING_HIGH:
                continue
            try:
                more = transfer.turn(self._channel, ref)
            except Exception as error:  # noqa: BLE001  no request may end the runner
                self._refuse(ref, error)
                more = False
            if not more:
                del self._transfers[ref]

    # The end of a run

    def _roots(self) -> list[int]:
        return [run.pid for run in self._runs.values()] + [probe.pid for probe in self._probes.values()]

    def _finish_runs(self) -> None:
        while over := [run for run in self._runs.values() if run.over]:
            for run in over:
                self._finish(run)

    def _finish(self, run: Run) -> None:
        spared = [pid for pid in self._roots() if pid != run.pid]
        clean = self._reaper.clear(spared, self._forks.pids())
        for stream in run.streams:
            for _ in range(FINAL_READS):
                if not self._forward(run, stream):
                    break
        for descriptor in (run.stdin.descriptor, *(stream.descriptor for stream in run.streams)):
            self._unwatch(descriptor)
        if run.recorder:
            self._unwatch(run.recorder.descriptor)
        run.close()
        del self._runs[run.ref]
        self._reaper.tell_session = len(self._runs) > 1
        room = full((self._options.workspace, "/tmp"))  # noqa: S108  looked at, not used
        self._channel.send(Kind.ENDED, run.ref, pack(run.ended(clean=clean, full=room)))
        self._tidied = False

    def _tidy(self) -> None:
        """Removes what runs left in the kernel, and looks at what the next run wants to know: nobody waits for it.

        Such objects do not tell whose they are, so they stay while any run lives. Only pid 1 has namespaces of its own,
        where nothing happens between two runs but what the host asks for.
        """
        if not self._tidied and not self._runs:
            self._tidied = True
            if os.getpid() == 1:
                clear_ipc()
                self._forks.prepare()
                self._counters.look()
                self._workspace.look()

    # What the host asks

    def _claim(self, ref: int) -> None:
        if any(ref in busy for busy in (self._runs, self._uploads, self._transfers, self._probes)):
            raise Refused("bad_request", f"ref {ref} is in use")

    def _ping(self, ref: int, _payload: bytes) -> None:
        self._channel.send(Kind.PONG, ref)

    def _prepare(self, ref: int, payload: bytes) -> None:
        self._make_places(Fields(payload))
        self._channel.send(Kind.DONE, ref, b"{}")

    def _make_places(self, fields: Fields) -> None:
        self._workspace.make(fields.texts("dirs"), fields.pairs("links"))

    def _unprepared(self, fields: Fields) -> str | None:
        """Makes what a run is to find in the workspace; returns why it could not, which does not stop the run."""
        if not fields.has("places"):
            return None
        try:
            self._make_places(fields.within("places"))
        except (OSError, Refused) as error:
            return refusal(error).message
        return None

    def _run(self, ref: int, payload: bytes) -> None:
        self._claim(ref)
        fields = Fields(payload)
        order = Order(fields)
        order.unprepared = self._unprepared(fields)
        try:
            run = Run(ref, order, self._counters, self._stock, self._options.skills, self._forks_for(order))
        except CannotStartError as error:
            self._report_not_started(ref, order, error)
            return
        if os.getpid() == 1 and not self._runs:
            self._unread_due = run.started + UNREAD_SECONDS
        self._runs[ref] = run
        self._reaper.tell_session = len(self._runs) > 1
        # A short program is often over before its start returns, on one processor always: no need to listen to it.
        self._reaper.bury()
        if not run.over:
            self._listen(run)
        if run.recorder:
            self._watch(run.recorder.descriptor, select.EPOLLIN, partial(self._on_notice, run))

    def _forks_for(self, order: Order) -> Forks | None:
        """Returns what may start the command as a fork: only the runner's own death ends all that it would leave."""
        alone = os.getpid() == 1 and not self._runs and not self._probes
        return self._forks if order.fork and alone else None

    def _report_not_started(self, ref: int, order: Order, error: CannotStartError) -> None:
        message = os.fsencode(f"{error.reason}\n")
        self._channel.send(Kind.STDERR, ref, message)
        nothing: dict[str, object] | None = {"events": [], "lost": {}} if order.record else None
        ended = {**not_started(error.code, message), "unprepared": order.unprepared, "record": nothing}
        self._channel.send(Kind.ENDED, ref, pack(ended))

    def _stdin(self, ref: int, payload: bytes) -> None:
        run = self._runs.get(ref)
        if run:
            run.stdin.feed(payload)
            self._flush_stdin(run, 0)

    def _close_stdin(self, ref: int, _payload: bytes) -> None:
        run = self._runs.get(ref)
        if run:
            run.stdin.end()
            self._flush_stdin(run, 0)

    def _flush_stdin(self, run: Run, _mask: int) -> None:
        stdin = run.stdin
        stdin.flush()
        if stdin.waiting and stdin.descriptor is not None:
            self._watch(stdin.descriptor, select.EPOLLOUT, partial(self._flush_stdin, run))
        else:
            self._unwatch(stdin.descriptor)
        granted = stdin.grant()
        if granted:
            self._channel.send(Kind.STDIN_CREDIT, run.ref, pack({"bytes": granted}))
        if stdin.done and stdin.descriptor is not None:
            stdin.close()
            if stdin.broken:
                self._channel.send(Kind.STDIN_CLOSED, run.ref)

    def _resize(self, ref: int, payload: bytes) -> None:
        run = self._runs.get(ref)
        if run:
            run.resize(terminal_size(Fields(payload)))

    def _signal(self, ref: int, payload: bytes) -> None:
        run = self._runs.get(ref)
        if run:
            name = Fields(payload).text("signal")
            if name not in SIGNALS:
                raise Refused("bad_request", "no signal of that name")
            run.signal(SIGNALS[name])

    def _kill(self, ref: int, _payload: bytes) -> None:
        run = self._runs.get(ref)
        if run:
            run.stop("cancelled")
        upload = self._uploads.pop(ref, None)
        if upload:
            upload.abort()
        if upload or self._transfers.pop(ref, None):
            raise Refused("failed", "cancelled")

    def _put(self, ref: int, payload: bytes) -> None:
        self._claim(ref)
        fields = Fields(payload)
        self._uploads[ref] = Upload(self._workspace, fields.text("path"), fields.count("mode"))

    def _chunk(self, ref: int, payload: bytes) -> None:
        upload = self._uploads.get(ref)
        if not upload:  # refused before: the host hears of it while it still sends
            return
        try:
            upload.write(payload)
        except Refused:
            del self._uploads[ref]
            upload.abort()
            raise

    def _chunks_end(self, ref: int, _payload: bytes) -> None:
        upload = self._uploads.pop(ref, None)
        if upload:
            upload.finish()
            self._channel.send(Kind.DONE, ref, pack({"size": upload.size}))

    def _get(self, ref: int, payload: bytes) -> None:
        self._claim(ref)
        fields = Fields(payload)
        limit = fields.count("max_bytes")
        credit = Credit()
        frames = download(self._workspace.open_file(fields.text("path")), limit, credit)
        self._transfers[ref] = Transfer(frames, credit)

    def _collect(self, ref: int, payload: bytes) -> None:
        self._claim(ref)
        fields = Fields(payload)
        credit = Credit()
        collection = Collection(self._workspace, fields.texts("patterns"), CollectLimits(fields), credit)
        self._transfers[ref] = Transfer(collection.frames(), credit)

    def _credit(self, ref: int, payload: bytes) -> None:
        count = Fields(payload).count("bytes")
        transfer = self._transfers.get(ref)
        if transfer:
            transfer.grant(count)

    def _facts(self, ref: int, payload: bytes) -> None:
        self._claim(ref)
        fields = Fields(payload)
        marker = fields.text("marker") if fields.has("marker") else None
        probe = Investigation(ref, self._options.workspace, self._options.skills, marker)
        self._probes[ref] = probe
        self._watch(probe.descriptor, select.EPOLLIN, partial(self._on_probe, probe))

    def _on_probe(self, probe: Investigation, _mask: int) -> None:
        answer = probe.read()
        if answer is None:
            return
        self._close_probe(probe)
        if answer:
            self._channel.send(Kind.FACTS_REPLY, probe.ref, answer)
        else:
            self._refuse(probe.ref, Refused("failed", "the probe was killed"))

    def _close_probe(self, probe: Investigation) -> None:
        self._unwatch(probe.descriptor)
        probe.close()
        del self._probes[probe.ref]
        self._tidied = False  # what it tried may have been counted


# --- Start ----------------------------------------------------------------------------------------------------------


def own_channel(path: str) -> Channel:
    """Takes stdin and stdout out of reach of everything the runner starts; prints go to stderr from here on.

    They are the channel, unless somebody listens at the socket of that path.
    """
    source = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
    sink = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
    os.dup2(NOTHING, 0)
    os.dup2(2, 1)
    with suppress(OSError):
        connected = connect(path)
        os.close(source)
        os.close(sink)
        source, sink = connected, fcntl.fcntl(connected, fcntl.F_DUPFD_CLOEXEC, 3)
    return Channel(source, sink)


AF_UNIX, SOCK_STREAM, SOCK_CLOEXEC = 1, 1, 0o2000000
"""From the kernel's headers: the module `socket` would be as much to load as all the others."""


def connect(path: str) -> int:
    """Returns a connection to the socket at `path`; raises OSError where none can be had."""
    if not path:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    descriptor = call(LIBC.socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)
    address = struct.pack("H108s", AF_UNIX, os.fsencode(path))
    try:
        call(LIBC.connect, descriptor, address, len(address))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def harden() -> None:
    """Makes the runner undumpable, and the one that orphans come to; raises OSError where that cannot be.

    Takes the lowest oom_score_adj that the host lets it have, as a program of the skill could: between equals the
    kernel takes the larger.
    """
    OWN_SCORE.open()
    call(LIBC.prctl, PR_SET_DUMPABLE, 0, 0, 0, 0)
    if os.getpid() != 1:
        call(LIBC.prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


DIRECTORIES = ("skills", "work", "work/inputs", "work/.venv", "runs", "out", "home")
"""What every workspace has from the start: those of sandbox_skills/workspace/layout.py, compared by a test."""


def make_directories(workspace: str) -> None:
    """Makes the workspace's own directories, with none of it being a link."""
    Workspace(workspace).make(DIRECTORIES, ())


PROTOCOL_EXIT = 3
"""What the runner exits with when the channel is broken, so that the host can tell it from its own hanging up."""


def main(arguments: Sequence[str]) -> int:
    """Runs until the channel ends; returns the exit code."""
    options = Options(arguments)
    channel = own_channel(options.channel)
    harden()
    if sys.getfilesystemencoding() != "utf-8":
        raise SystemExit("runner: paths must be UTF-8: start Python with -X utf8")
    make_directories(options.workspace)
    os.chdir(options.workspace)
    try:
        Runner(options, channel).serve()
    except BrokenChannelError as error:
        print(f"runner: {error}", file=sys.stderr)  # noqa: T201  the engine keeps stderr for the post-mortem
        return PROTOCOL_EXIT
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
