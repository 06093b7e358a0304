"""System calls that Python has no function for."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

CLONE_NEWUSER = 0x10000000
MNT_DETACH = 2
PTRACE_ATTACH = 16
PTRACE_DETACH = 17
IO_URING_SETUP = 425
"""The number of io_uring_setup on every architecture."""

IO_URING_PARAMS_BYTES = 120

CHILD_SECONDS = 2.0
"""How long a child waits to be traced or read; then it ends by itself, should its parent be killed."""

SECRET = ctypes.create_string_buffer(b"only in memory")

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_libc.ptrace.restype = ctypes.c_long
_libc.process_vm_readv.restype = ctypes.c_ssize_t
_libc.syscall.restype = ctypes.c_long


class _IOVector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def mount_tmpfs(directory: str) -> None:
    """Mounts an empty tmpfs; raises OSError."""
    _checked(_libc.mount(b"none", os.fsencode(directory), b"tmpfs", ctypes.c_ulong(0), None))


def unmount(directory: str) -> None:
    """Takes a mount away again; raises OSError."""
    _checked(_libc.umount2(os.fsencode(directory), MNT_DETACH))


def unshare_user() -> str:
    """Moves this process into a user namespace of its own."""
    _checked(_libc.unshare(CLONE_NEWUSER))
    return "made a user namespace"


def set_up_io_uring() -> str:
    """Makes a ring, whose requests would pass by the system call filter."""
    parameters = ctypes.create_string_buffer(IO_URING_PARAMS_BYTES)
    os.close(_checked(_libc.syscall(ctypes.c_long(IO_URING_SETUP), ctypes.c_uint(1), parameters)))
    return "set up a ring"


def trace_child() -> str:
    """Attaches to a child and lets it go."""
    with _waiting_child() as child:
        _checked(_libc.ptrace(PTRACE_ATTACH, child, None, None))
        os.waitpid(child, 0)
        _checked(_libc.ptrace(PTRACE_DETACH, child, None, None))
    return "traced a child"


def read_child_memory() -> str:
    """Reads from a child what it has at the address of SECRET: a fork keeps addresses."""
    length = len(SECRET)
    copy = ctypes.create_string_buffer(length)
    local = _IOVector(ctypes.addressof(copy), length)
    remote = _IOVector(ctypes.addressof(SECRET), length)
    one, none = ctypes.c_ulong(1), ctypes.c_ulong(0)
    with _waiting_child() as child:
        _checked(_libc.process_vm_readv(child, ctypes.byref(local), one, ctypes.byref(remote), one, none))
    return f"read {copy.value.decode()!r} from a child"


@contextmanager
def _waiting_child() -> Iterator[int]:
    child = os.fork()
    if child == 0:
        time.sleep(CHILD_SECONDS)
        os._exit(0)
    try:
        yield child
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
