"""Addresses and questions for names, as they lie in memory."""

from __future__ import annotations

import socket
import struct

AF_INET, AF_INET6 = 2, 10


def internet_address(raw: bytes) -> tuple[str, int] | None:
    """Returns address and port of a sockaddr; None for one that leads to no network."""
    (family,) = struct.unpack_from("H", raw)
    if family == AF_INET and len(raw) >= 8:  # noqa: PLR2004  up to the end of the address
        return socket.inet_ntop(AF_INET, raw[4:8]), int.from_bytes(raw[2:4], "big")
    if family == AF_INET6 and len(raw) >= 24:  # noqa: PLR2004  as above
        return socket.inet_ntop(AF_INET6, raw[8:24]), int.from_bytes(raw[2:4], "big")
    return None


def queried_name(data: bytes) -> str:
    """Returns the name that a DNS message asks for (RFC 1035, 4.1), "" where it is none."""
    if len(data) < 17 or data[2] & 0x80 or data[4:6] != b"\0\1":  # noqa: PLR2004  header, name and type
        return ""
    labels: list[bytes] = []
    place = 12
    while place < len(data) and data[place]:
        length = data[place]
        label = data[place + 1 : place + 1 + length]
        if length > 63 or len(label) < length:  # noqa: PLR2004  longer ones are pointers, which no question has
            return ""
        labels.append(label)
        place += 1 + length
    return b".".join(labels).decode("ascii", "backslashreplace") if place < len(data) else ""
