"""What runs on this host, by words that it was started with."""

from __future__ import annotations

import subprocess
import time

GONE_SECONDS = 10.0
"""A process that was killed is there until it has died, and on a busy machine a moment longer."""


def processes_with(text: str) -> list[str]:
    """Returns the command lines that have a text in them."""
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if text in line]


def wait_until_none_has(text: str) -> None:
    """Returns once no command line has that text."""
    deadline = time.monotonic() + GONE_SECONDS
    while (left := processes_with(text)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert left == []
