"""A pseudo-terminal in place of the pipes of a run."""

from __future__ import annotations

import fcntl
import os

from .lean import struct, suppress
from .refusals import Refused


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
