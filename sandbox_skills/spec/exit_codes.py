"""The exit codes that shells and users know."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

StopReason = Literal["wall_time", "cpu_time", "memory", "output", "cancelled"]

SIGNAL_BASE = 128
"""What a shell adds to the number of a signal that ended a program."""

STOPPED_CODES: Mapping[StopReason, int] = MappingProxyType(
    {
        "wall_time": 124,  # as `timeout` says it
        "cpu_time": 124,
        "memory": 137,  # as a shell says it of a program that the kernel killed
        "output": 141,  # as a shell says it of a program that died of SIGPIPE
        "cancelled": 130,  # as a shell says it of a program that was interrupted
    }
)
"""The exit codes that shells and users know for what stopped a program."""
