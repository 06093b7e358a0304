"""Calls of the C library that Python has not, and files of the kernel."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER = 0x20000, 0x8000000, 0x10000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36

LIBC = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: bytes | int | None) -> None:
    """Calls a function of the C library; raises OSError that names it."""
    words = [ctypes.c_ulong(value) if isinstance(value, int) else value for value in arguments]
    if getattr(LIBC, name)(*words) == -1:
        code = ctypes.get_errno()
        about = next((os.fsdecode(value) for value in arguments[1:] if isinstance(value, bytes)), "")
        raise OSError(code, os.strerror(code), f"{name} {about}".strip())


def write(path: str, text: str) -> None:
    """Writes a file of the kernel."""
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def children(pid: int) -> list[int]:
    """Returns the children of a process that has one thread; none where the kernel does not tell."""
    with suppress(OSError), open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]
    return []
