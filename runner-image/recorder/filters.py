"""The filter that holds such calls."""

from __future__ import annotations

import errno
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .calls import Machine


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
