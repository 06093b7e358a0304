"""A port for a program that cannot choose one by itself and tell it."""

from __future__ import annotations

import random
import socket
from contextlib import suppress
from pathlib import Path

FIRST = 10_000
"""Below are those of well-known programs."""


def free_port() -> int:
    """Returns a port of the loopback on which nobody listens, of those that the kernel gives to nobody by itself.

    Another one could be given to any connection before the program listens on it: even to that which asks whether it
    does, and then has itself at its other end.
    """
    given = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])
    while True:
        port = random.randrange(FIRST, given)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
