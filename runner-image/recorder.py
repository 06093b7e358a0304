"""The recorder: what a run tries, seen from outside its processes. The runner loads it for a run that wants one.

Theory of operation
===================

The program is started behind a seccomp filter of its own, which the kernel puts on top of the box's. For the calls
that the run is to be recorded of, the filter says USER_NOTIF: the kernel holds the caller, hands the call's registers
to whoever has the filter's listener, and goes on when told to. The listener is the runner's; a process in the box never
has it. The answer is always the same, CONTINUE: the kernel makes the call as it would have been made, with every other
filter, permission and limit of the box as it was. Between filters the strictest answer counts, and USER_NOTIF is less
strict than ERRNO, so that what the box refuses stays refused, and is not seen here.

Nothing in the box can take the filter off, and children inherit it, whatever they are written in. What a call points
at is read from the caller's memory while it waits. That is a record and no decision: a program with two threads can
have changed it by the time the kernel looks, and one that has made itself undumpable cannot be read; then it is told
that there was a call, and not where to.

The listener is born in the program's own process, between fork and exec, and has to be sent to the runner by a call
that the filter would hold. So the filter lets calls pass that have a random number of 64 bits in their last register,
which these calls do not use. Nothing that runs after the exec knows it.
"""
# ruff: noqa: PTH113, PTH115, PTH118  no pathlib, as in the runner

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import signal
import socket
import struct
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Never, Self

ROWS = 200
"""Different things of one kind that are told, the first ones; what follows is counted."""

CHARACTERS = 12 * 1024
"""What the texts of one kind have together: five kinds as JSON are then below the longest reply."""

TEXT = 400
"""Longest text of one thing."""

PATH_MAX = 4096
QUERY_BYTES = 512
"""Longest question to a name server over UDP."""

MESSAGES = 8
"""Messages of one sendmmsg that are looked at; a resolver sends two."""

TURN = 16
"""Calls answered before the runner's loop gets its turn: a millisecond or two, and tens for the longest paths."""

NAMED = 1024
"""Sockets remembered as leading to a name server."""

KINDS = ("connect", "lookup", "program", "read", "write")

UNTOLD = ("/usr/", "/lib/", "/lib32/", "/lib64/", "/bin/", "/sbin/", "/opt/sandbox-skills/", "/etc/ld.so.")
"""Reads of programs and their libraries, which every program makes."""

DEVICES = (
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts/",
)
"""Neither read nor written in a sense that anybody asks about."""


class CannotRecordError(Exception):
    """The kernel, or a filter above ours, gives no listener."""


# --- The calls that are recorded --------------------------------------------------------------------------------------

# (directory, path): positions of the arguments; None is the current directory.
_AT = ((0, 1),)
_HERE = ((None, 0),)
_WRITES_X86 = {
    "mkdir": (83, _HERE),
    "rmdir": (84, _HERE),
    "creat": (85, _HERE),
    "unlink": (87, _HERE),
    "rename": (82, ((None, 0), (None, 1))),
    "link": (86, ((None, 1),)),
    "symlink": (88, ((None, 1),)),
    "mknod": (133, _HERE),
    "truncate": (76, _HERE),
    "mkdirat": (258, _AT),
    "unlinkat": (263, _AT),
    "mknodat": (259, _AT),
    "renameat": (264, ((0, 1), (2, 3))),
    "renameat2": (316, ((0, 1), (2, 3))),
    "linkat": (265, ((2, 3),)),
    "symlinkat": (266, ((1, 2),)),
}
_WRITES_ARM = {
    "truncate": (45, _HERE),
    "mkdirat": (34, _AT),
    "unlinkat": (35, _AT),
    "mknodat": (33, _AT),
    "renameat": (38, ((0, 1), (2, 3))),
    "renameat2": (276, ((0, 1), (2, 3))),
    "linkat": (37, ((2, 3),)),
    "symlinkat": (36, ((1, 2),)),
}


class Machine:
    """The numbers of one processor's system calls, from the kernel's tables."""

    def __init__(
        self, audit: int, *, numbers: Mapping[str, int], writes: Mapping[str, tuple[int, Places]]
    ) -> None:
        self.audit = audit
        self.numbers = numbers
        self.writes = dict(writes.values())

    def of(self, wanted: Iterable[str]) -> list[int]:
        """Returns the calls that `wanted` is about, the frequent ones first."""
        names = {
            "files": ("open", "openat", "openat2"),
            "network": ("connect", "sendto", "sendmsg", "sendmmsg"),
            "programs": ("execve", "execveat"),
        }
        chosen = [
            self.numbers[name]
            for word in names
            if word in wanted
            for name in names[word]
            if name in self.numbers
        ]
        return chosen + (list(self.writes) if "files" in wanted else [])


if TYPE_CHECKING:
    Places = tuple[tuple[int | None, int], ...]

MACHINES = {
    "x86_64": Machine(
        0xC000003E,
        numbers={
            "seccomp": 317,
            "open": 2,
            "openat": 257,
            "openat2": 437,
            "connect": 42,
            "sendto": 44,
            "sendmsg": 46,
            "sendmmsg": 307,
            "execve": 59,
            "execveat": 322,
        },
        writes=_WRITES_X86,
    ),
    "aarch64": Machine(
        0xC00000B7,
        numbers={
            "seccomp": 277,
            "openat": 56,
            "openat2": 437,
            "connect": 203,
            "sendto": 206,
            "sendmsg": 211,
            "sendmmsg": 269,
            "execve": 221,
            "execveat": 281,
        },
        writes=_WRITES_ARM,
    ),
}

# --- The filter -------------------------------------------------------------------------------------------------------

LOAD, EQUAL, ABOVE, RETURN = 0x20, 0x15, 0x35, 0x06
ALLOW, NOTIFY, REFUSE = 0x7FFF0000, 0x7FC00000, 0x00050000 | errno.ENOSYS
NUMBER, ARCHITECTURE, LAST_ARGUMENT = 0, 4, 16 + 8 * 5
FOREIGN_BIT = 0x40000000
"""What x32 adds to its call numbers: another numbering on the same architecture."""


def filter_program(machine: Machine, calls: Sequence[int], cookie: int) -> bytes:
    """Returns the BPF program: NOTIFY for `calls` unless their last register has the cookie, else ALLOW.

    Calls by another numbering do not exist behind it, as in the box's own filter: nothing would see them here.
    """
    low, high = cookie & 0xFFFFFFFF, cookie >> 32
    count = len(calls)
    rows = [
        (LOAD, 0, 0, ARCHITECTURE),
        (EQUAL, 1, 0, machine.audit),
        (RETURN, 0, 0, REFUSE),
        (LOAD, 0, 0, NUMBER),
        (ABOVE, 0, 1, FOREIGN_BIT),
        (RETURN, 0, 0, REFUSE),
        *((EQUAL, count - index, 0, number) for index, number in enumerate(calls)),
        (RETURN, 0, 0, ALLOW),
        (LOAD, 0, 0, LAST_ARGUMENT),
        (EQUAL, 0, 3, low),
        (LOAD, 0, 0, LAST_ARGUMENT + 4),
        (EQUAL, 0, 1, high),
        (RETURN, 0, 0, ALLOW),
        (RETURN, 0, 0, NOTIFY),
    ]
    return b"".join(struct.pack("HBBI", *row) for row in rows)


# --- The start --------------------------------------------------------------------------------------------------------

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long

SET_MODE_FILTER = 1
NEW_LISTENER, WAIT_KILLABLE = 8, 32
PR_SET_NO_NEW_PRIVS = 38
SCM_RIGHTS = 1
READY = b"+"
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


def syscall(number: int, *arguments: int) -> int:
    """Makes a system call; raises OSError."""
    result: int = LIBC.syscall(
        ctypes.c_long(number), *(ctypes.c_ulong(value & (2**64 - 1)) for value in arguments)
    )
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


class Start:
    """A program that is to be recorded: all that its process needs is made before the fork."""

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        paths: Iterable[str],
        wanted: Iterable[str],
    ) -> None:
        machine = MACHINES.get(os.uname().machine)
        if machine is None:
            raise CannotRecordError(f"not on {os.uname().machine}")
        self._machine = machine
        self._cookie = int.from_bytes(os.urandom(8), "little")
        self._cwd = cwd
        program = filter_program(machine, machine.of(wanted), self._cookie)
        self._code = ctypes.create_string_buffer(program, len(program))
        self._filter = ctypes.create_string_buffer(
            struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(self._code)), 16
        )
        self._paths = [ctypes.create_string_buffer(os.fsencode(path)) for path in paths]
        self._argv = pointers(map(os.fsencode, argv))
        self._env = pointers(os.fsencode(f"{name}={value}") for name, value in env.items())

    def run(self, streams: tuple[int, int, int]) -> tuple[int, int]:
        """Starts it; returns its pid and the listener. Raises OSError where it cannot be started, CannotRecordError."""
        ours, its = socket.socketpair()
        with ours, its:
            pid = os.fork()
            if not pid:
                self._child(its.fileno(), streams)
            its.close()
            try:
                return pid, self._listener(ours)
            except BaseException:
                os.waitpid(pid, 0)
                raise

    def _listener(self, ours: socket.socket) -> int:
        data, descriptors, _, _ = socket.recv_fds(ours, 16, 1)
        if not data.startswith(READY) or not descriptors:
            raise CannotRecordError(os.strerror(int(data) if data else errno.EIO))
        failure = data[1:] + ours.recv(16)
        if not failure:
            return descriptors[0]
        os.close(descriptors[0])
        code = int(failure)
        raise OSError(code, os.strerror(code), *((self._cwd,) if b" " in failure else ()))

    # In the child

    def _child(self, sink: int, streams: tuple[int, int, int]) -> Never:
        """Becomes the program. Once the filter is there nothing may be imported or opened: nobody answers yet."""
        try:
            self._prepare(streams)
            try:
                os.chdir(self._cwd)
            except OSError as error:
                chdir_failed: bytes | None = b"%d " % (error.errno or errno.EIO)
            else:
                chdir_failed = None
            try:
                listener = self._install()
            except OSError as error:
                os.write(sink, b"%d" % (error.errno or errno.EIO))
                os._exit(127)
            self._send(sink, listener)
            os.close(listener)
            os.write(sink, chdir_failed or b"%d" % self._execute())
        finally:
            os._exit(127)

    @staticmethod
    def _prepare(streams: tuple[int, int, int]) -> None:
        os.setsid()
        for number, descriptor in enumerate(streams):
            os.dup2(descriptor, number)
        signal.set_wakeup_fd(-1)
        for number in IGNORED_BY_PYTHON:
            signal.signal(number, signal.SIG_DFL)

    def _install(self) -> int:
        LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        where = ctypes.addressof(self._filter)
        number = self._machine.numbers["seccomp"]
        try:
            # So a signal does not make the program ask twice; the kernel knows it since 5.19.
            return syscall(number, SET_MODE_FILTER, NEW_LISTENER | WAIT_KILLABLE, where)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            return syscall(number, SET_MODE_FILTER, NEW_LISTENER, where)

    def _send(self, sink: int, listener: int) -> None:
        """Sends the listener, past the filter that it belongs to."""
        byte = ctypes.create_string_buffer(READY, 1)
        vector = ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(byte), 1), 16)
        control = ctypes.create_string_buffer(
            struct.pack("Qiiixxxx", 20, socket.SOL_SOCKET, SCM_RIGHTS, listener), 24
        )
        message = ctypes.create_string_buffer(
            struct.pack("QQQQQQQ", 0, 0, ctypes.addressof(vector), 1, ctypes.addressof(control), 24, 0), 56
        )
        syscall(self._machine.numbers["sendmsg"], sink, ctypes.addressof(message), 0, 0, 0, self._cookie)

    def _execute(self) -> int:
        """Executes the first of the files that can be; returns the errno where none can, as the runner's own start."""
        failure = errno.ENOENT
        number = self._machine.numbers["execve"]
        argv, env = ctypes.addressof(self._argv), ctypes.addressof(self._env)
        for path in self._paths:
            try:
                syscall(number, ctypes.addressof(path), argv, env, 0, 0, self._cookie)
            except OSError as error:
                if error.errno not in {errno.ENOENT, errno.ENOTDIR}:
                    failure = error.errno or failure
        return failure


def pointers(texts: Iterable[bytes]) -> ctypes.Array[ctypes.c_char_p]:
    """Returns a list of C strings with its NULL."""
    values = list(texts)
    return (ctypes.c_char_p * (len(values) + 1))(*values, None)


# --- What is told -----------------------------------------------------------------------------------------------------


class Ledger:
    """What was seen, each different thing once with a count: the first ones of each kind, and how many more."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[tuple[str, str], int]] = {kind: {} for kind in KINDS}
        self._room: dict[str, int] = dict.fromkeys(KINDS, CHARACTERS)
        self._lost: dict[str, int] = dict.fromkeys(KINDS, 0)

    def add(self, kind: str, what: str, detail: str = "") -> None:
        """Counts one; an empty `what` is something that could not be read."""
        rows, row = self._rows[kind], (printable(what), printable(detail))
        if row in rows:
            rows[row] += 1
            return
        size = len("".join(row).encode("ascii", "backslashreplace"))
        if len(rows) >= ROWS or size > self._room[kind]:
            self._lost[kind] += 1
            return
        rows[row] = 1
        self._room[kind] -= size

    def told(self) -> dict[str, object]:
        """Returns all of it, as ENDED has it."""
        events = [[kind, *row, count] for kind, rows in self._rows.items() for row, count in rows.items()]
        return {"events": events, "lost": {kind: count for kind, count in self._lost.items() if count}}


def printable(text: str) -> str:
    """Returns a text that no terminal takes for a command, and that JSON makes at most twice as long as ASCII does."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text[:TEXT]
    )[:TEXT]


# --- Answers ----------------------------------------------------------------------------------------------------------

NOTIFICATION = struct.Struct("QIIiIQ6Q")
ANSWER = struct.Struct("QqiI")
RECEIVE, SEND, STILL_THERE = 0xC0502100, 0xC0182101, 0x40082102
CONTINUE = 1

AT_FDCWD = -100
O_CREAT, O_TRUNC, ACCESS_MODE = os.O_CREAT, os.O_TRUNC, os.O_ACCMODE
AF_INET, AF_INET6 = 2, 10
NAME_SERVER = 53


class Recorder:
    """Answers what a run's processes ask to be let do, and keeps what it was. Nothing here ends a call."""

    def __init__(self, listener: int, skills: str) -> None:
        self.descriptor = listener
        self._ledger = Ledger()
        self._untold = (*UNTOLD, skills + "/")
        self._resolving: set[tuple[int, int]] = set()
        numbers = MACHINES[os.uname().machine].numbers
        self._writes = MACHINES[os.uname().machine].writes
        handlers: dict[str, Callable[[Caller, Sequence[int]], None]] = {
            "open": lambda caller, args: self._open(caller, None, args[0], args[1]),
            "openat": lambda caller, args: self._open(caller, args[0], args[1], args[2]),
            "openat2": self._openat2,
            "connect": self._connect,
            "sendto": self._sendto,
            "sendmsg": lambda caller, args: self._message(caller, args[0], args[1]),
            "sendmmsg": self._sendmmsg,
            "execve": lambda caller, args: self._program(caller, None, args[0], args[1]),
            "execveat": lambda caller, args: self._program(caller, args[0], args[1], args[2]),
        }
        self._handlers = {numbers[name]: handlers[name] for name in handlers if name in numbers}

    def turn(self) -> None:
        """Answers some of those that wait; called where one does."""
        for _ in range(TURN):
            asked = bytearray(NOTIFICATION.size)
            try:
                fcntl.ioctl(self.descriptor, RECEIVE, asked)
            except OSError:  # the one that asked was killed meanwhile
                return
            identity, pid, _, number, _, _, *arguments = NOTIFICATION.unpack(asked)
            try:
                self._note(identity, pid, number, arguments)
            finally:
                with suppress(OSError):  # it was killed, or interrupted and will ask again
                    fcntl.ioctl(self.descriptor, SEND, ANSWER.pack(identity, 0, 0, CONTINUE))
            if not waiting(self.descriptor):
                return

    def _note(self, identity: int, pid: int, number: int, arguments: Sequence[int]) -> None:
        with Caller(pid) as caller:
            try:
                fcntl.ioctl(self.descriptor, STILL_THERE, struct.pack("Q", identity))
            except OSError:  # the number may be another's by now, and what was opened too
                return
            if number in self._writes:
                for directory, path in self._writes[number]:
                    place = None if directory is None else arguments[directory]
                    self._write(caller.entry(place, arguments[path]))
            elif number in self._handlers:
                self._handlers[number](caller, arguments)

    def told(self) -> dict[str, object]:
        """Returns what ENDED says of it."""
        return self._ledger.told()

    def close(self) -> None:
        """Gives up the listener: whoever is still held gets ENOSYS."""
        os.close(self.descriptor)

    # Files

    def _openat2(self, caller: Caller, arguments: Sequence[int]) -> None:
        how = caller.read(arguments[2], 8)
        flags = struct.unpack("Q", how)[0] if len(how) == 8 else 0  # noqa: PLR2004  a number of 64 bits
        self._open(caller, arguments[0], arguments[1], flags)

    def _open(self, caller: Caller, directory: int | None, path: int, flags: int) -> None:
        if flags & os.O_PATH == os.O_PATH:
            return
        if flags & ACCESS_MODE or flags & (O_CREAT | O_TRUNC):
            self._write(caller.file(directory, path))
            return
        if flags & os.O_DIRECTORY:
            return
        name = caller.file(directory, path)
        if not name:
            self._ledger.add("read", "")
        elif not name.startswith((*self._untold, *DEVICES)) and os.path.isfile(name):
            self._ledger.add("read", name)

    def _write(self, name: str) -> None:
        if not name.startswith(DEVICES):
            self._ledger.add("write", name)

    # Programs

    def _program(self, caller: Caller, directory: int | None, path: int, argv: int) -> None:
        name = caller.file(directory, path)
        if not name or os.path.isfile(name):  # shells try each folder of PATH
            self._ledger.add("program", name, " ".join(caller.words(argv)))

    # The network

    def _connect(self, caller: Caller, arguments: Sequence[int]) -> None:
        self._resolving.discard((caller.pid, arguments[0]))
        self._address(caller, arguments[0], arguments[1], arguments[2])

    def _sendto(self, caller: Caller, arguments: Sequence[int]) -> None:
        descriptor, data, length, _, address, size = arguments
        if address:
            self._address(caller, descriptor, address, size)
        if (caller.pid, descriptor) in self._resolving:
            self._query(caller.read(data, min(length, QUERY_BYTES)))

    def _sendmmsg(self, caller: Caller, arguments: Sequence[int]) -> None:
        for index in range(min(arguments[2] & 0xFFFFFFFF, MESSAGES)):
            self._message(caller, arguments[0], arguments[1] + 64 * index)

    def _message(self, caller: Caller, descriptor: int, where: int) -> None:
        header = caller.read(where, 32)
        if len(header) < 32:  # noqa: PLR2004  the part of a msghdr that is looked at
            return
        address, size, vector, count = struct.unpack("QIxxxxQQ", header)
        if address:
            self._address(caller, descriptor, address, size)
        if count and (caller.pid, descriptor) in self._resolving:
            entry = caller.read(vector, 16)
            if len(entry) == 16:  # noqa: PLR2004  an iovec
                data, length = struct.unpack("QQ", entry)
                self._query(caller.read(data, min(length, QUERY_BYTES)))

    def _address(self, caller: Caller, descriptor: int, where: int, size: int) -> None:
        raw = caller.read(where, min(size & 0xFFFFFFFF, 28))
        if len(raw) < 2:  # noqa: PLR2004  the family
            self._ledger.add("connect", "")
            return
        found = internet_address(raw)
        if found is None:
            return
        host, port = found
        self._ledger.add("connect", host, str(port))
        if port == NAME_SERVER and len(self._resolving) < NAMED:
            self._resolving.add((caller.pid, descriptor))

    def _query(self, data: bytes) -> None:
        name = queried_name(data)
        if name:
            self._ledger.add("lookup", name)


def waiting(listener: int) -> bool:
    """Tells whether somebody asks; another RECEIVE would wait for the next one."""
    import select  # noqa: PLC0415  which the runner has loaded

    poll = select.poll()
    poll.register(listener, select.POLLIN)
    return any(mask & select.POLLIN for _, mask in poll.poll(0))


def internet_address(raw: bytes) -> tuple[str, int] | None:
    """Returns address and port of a sockaddr; None for one that leads to no network."""
    (family,) = struct.unpack_from("H", raw)
    if family == AF_INET and len(raw) >= 8:  # noqa: PLR2004  up to the end of the address
        return socket.inet_ntop(AF_INET, raw[4:8]), int.from_bytes(raw[2:4], "big")
    if family == AF_INET6 and len(raw) >= 24:  # noqa: PLR2004  as above
        return socket.inet_ntop(AF_INET6, raw[8:24]), int.from_bytes(raw[2:4], "big")
    return None


def queried_name(data: bytes) -> str:
    """Returns the name that a DNS message asks for (RFC 1035, 4.1), "" where it is none."""
    if len(data) < 17 or data[2] & 0x80 or data[4:6] != b"\0\1":  # noqa: PLR2004  header, name and type
        return ""
    labels: list[bytes] = []
    place = 12
    while place < len(data) and data[place]:
        length = data[place]
        label = data[place + 1 : place + 1 + length]
        if length > 63 or len(label) < length:  # noqa: PLR2004  longer ones are pointers, which no question has
            return ""
        labels.append(label)
        place += 1 + length
    return b".".join(labels).decode("ascii", "backslashreplace") if place < len(data) else ""


def resolved(path: str) -> str:
    """Returns a path with its links followed, as far as that can be done."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError, RecursionError):  # a thousand links in a row are a path, too
        return path


class Caller:
    """A process that is held in a call, as `/proc` shows it. What cannot be read is empty."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._memory = -1

    def __enter__(self) -> Self:
        with suppress(OSError):
            self._memory = os.open(f"/proc/{self.pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        return self

    def __exit__(self, *_: object) -> None:
        if self._memory >= 0:
            os.close(self._memory)

    def read(self, where: int, count: int) -> bytes:
        """Returns up to `count` bytes: what follows may be no memory."""
        if self._memory < 0 or where >= 2**63:
            return b""
        with suppress(OSError):
            return os.pread(self._memory, count, where)
        return b""

    def text(self, where: int, most: int = PATH_MAX) -> str | None:
        """Returns a C string, None for one that cannot be read."""
        raw = self.read(where, most)
        return os.fsdecode(raw.partition(b"\0")[0]) if raw else None

    def words(self, where: int) -> Iterator[str]:
        """Yields the first of a list of C strings, as many as are told."""
        left = TEXT
        raw = self.read(where, 8 * 32)
        for (address,) in struct.iter_unpack("Q", raw[: len(raw) // 8 * 8]):
            if not address or left <= 0:
                return
            word = self.text(address, TEXT) or ""
            left -= len(word) + 1
            yield word

    def file(self, directory: int | None, where: int) -> str:
        """Returns the file that a path leads to, links followed."""
        path = self._absolute(directory, where)
        return path if path.startswith(("/proc/", "/dev/")) or not path else resolved(path)

    def entry(self, directory: int | None, where: int) -> str:
        """Returns the entry that a path names, links followed on the way and not at its end."""
        path = self._absolute(directory, where)
        folder, name = os.path.split(path.rstrip("/"))
        return os.path.join(resolved(folder), name) if path else ""

    def _absolute(self, directory: int | None, where: int) -> str:
        path = self.text(where)
        if path is None:
            return ""
        if path.startswith("/"):
            return os.path.normpath(path)
        number = AT_FDCWD if directory is None else ctypes.c_int(directory & 0xFFFFFFFF).value
        base = "cwd" if number == AT_FDCWD else f"fd/{number}"
        try:
            folder = os.readlink(f"/proc/{self.pid}/{base}")
        except OSError:
            return path
        return os.path.join(folder, path) if path else folder
