"""What attacks share. This file is put into a box and imported there; functions of tests that run there import it."""

from __future__ import annotations

import ctypes
import errno
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

LIBC = ctypes.CDLL(None, use_errno=True)


def errno_of(action: Callable[[], object]) -> str:
    """Returns "ok" for what could be done, else the name of the error number."""
    try:
        action()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, repr(error))
    return "ok"


def libc(name: str, *arguments: int) -> int:
    """Calls a function of the C library that Python has no other way to; raises OSError."""
    result: int = getattr(LIBC, name)(*map(ctypes.c_long, arguments))
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def opened(path: str, flags: int = os.O_WRONLY) -> str:
    """Returns what comes of opening a file; nothing is read, written or waited for."""
    return errno_of(lambda: os.close(os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)))
