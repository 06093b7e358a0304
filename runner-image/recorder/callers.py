"""A process that is held in a call."""

from __future__ import annotations

import ctypes
import os
import struct
from contextlib import suppress
from typing import TYPE_CHECKING

from .ledger import TEXT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self


PATH_MAX = 4096

AT_FDCWD = -100


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
