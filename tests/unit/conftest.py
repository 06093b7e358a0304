"""Unit tests run without a network; the loopback belongs to the programs under test, as in a box."""

from __future__ import annotations

import fcntl
import socket
import struct
from contextlib import suppress

import pytest

SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1


@pytest.fixture(scope="session", autouse=True)
def loopback() -> None:
    """In a network namespace of its own even the loopback starts down; elsewhere it is up, and we may not."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control, suppress(PermissionError):
        request = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16xH14x", fcntl.ioctl(control, SIOCGIFFLAGS, request))[0]
        if not flags & IFF_UP:
            fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | IFF_UP))
