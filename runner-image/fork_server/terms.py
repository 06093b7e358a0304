"""What the runner and the server have to agree upon."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any


PYTHON = "/usr/bin/python3"
"""The interpreter of the image, which `python3` means where a skill has none of its own."""

ENVIRONMENT = {
    "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONNOUSERSITE": "1",
    "PYTHONUNBUFFERED": "1",
}
"""What the server is started with: what sandbox_skills/workspace/layout.py has for an interpreter's start."""

EARLY = ("PYTHON", "LANG", "LC_", "LD_", "GLIBC_", "MALLOC_", "OPENSSL_", "LOCPATH", "GCONV_PATH")
"""How the variables begin that an interpreter or its libraries read at their start, and never again."""

VARIABLES = os.environ  # noqa: TID251  those of the program

LATE = frozenset({"PYTHONPATH", "PYTHONBREAKPOINT", "LANGUAGE"})
"""Those among them that a fork can still apply."""

MAX_ORDER = 64 * 1024
"""Longest order in bytes, well below what a socket takes at once: a longer one is started as ever."""

SIGKILL, SIGCONT = 9, 18

PR_SET_DUMPABLE = 4

PROTECTED, READY, FORK = b"protected", b"ready", b"fork"
"""What the server says: that nobody can reach it, and later that it has imported all. Then it is told to fork, and each
fork says its pid and is sent one order."""


def libc() -> Any:  # noqa: ANN401  its functions are known to none of the type checkers
    """Returns the C library."""
    import ctypes  # noqa: PLC0415  the runner has no need of it

    return ctypes.CDLL(None)
