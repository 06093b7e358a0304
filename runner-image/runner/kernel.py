"""Calls of the C library that `os` does not have."""

from __future__ import annotations

import _ctypes
import errno
import os
from typing import TYPE_CHECKING

from .lean import CDLL, c_long, struct, suppress

if TYPE_CHECKING:
    from collections.abc import Callable


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


AF_UNIX, SOCK_STREAM, SOCK_CLOEXEC, SOL_SOCKET, SO_SNDBUF = 1, 1, 0o2000000, 1, 7
"""From the kernel's headers: the module `socket` would be as much to load as all the others."""


SEND_BUFFER = 1024 * 1024
"""What the kernel may hold of what is sent, as far as it lets that be chosen: files reach the host a quarter sooner."""


def connect(path: str) -> int:
    """Returns a connection to the socket at `path`; raises OSError where none can be had."""
    if not path:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    descriptor = call(LIBC.socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)
    address = struct.pack("H108s", AF_UNIX, os.fsencode(path))
    try:
        with suppress(OSError):
            call(LIBC.setsockopt, descriptor, SOL_SOCKET, SO_SNDBUF, struct.pack("i", SEND_BUFFER), 4)
        call(LIBC.connect, descriptor, address, len(address))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
