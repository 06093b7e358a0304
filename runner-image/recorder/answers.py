"""The answer to every call, and what is noted of it."""

from __future__ import annotations

import fcntl
import os
import struct
from contextlib import suppress
from typing import TYPE_CHECKING

from .callers import Caller
from .calls import MACHINES
from .ledger import Ledger
from .network import internet_address, queried_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

QUERY_BYTES = 512
"""Longest question to a name server over UDP."""

MESSAGES = 8
"""Messages of one sendmmsg that are looked at; a resolver sends two."""

TURN = 16
"""Calls answered before the runner's loop gets its turn: a millisecond or two, and tens for the longest paths."""

NAMED = 1024
"""Sockets remembered as leading to a name server."""

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


NOTIFICATION = struct.Struct("QIIiIQ6Q")
ANSWER = struct.Struct("QqiI")
RECEIVE, SEND, STILL_THERE = 0xC0502100, 0xC0182101, 0x40082102
CONTINUE = 1
O_CREAT, O_TRUNC, ACCESS_MODE = os.O_CREAT, os.O_TRUNC, os.O_ACCMODE
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
