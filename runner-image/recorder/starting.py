"""The start of a program behind the filter."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import socket
import struct
from typing import TYPE_CHECKING

from .calls import MACHINES
from .filters import filter_program

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Never


class CannotRecordError(Exception):
    """The kernel, or a filter above ours, gives no listener."""


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
