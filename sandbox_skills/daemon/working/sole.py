"""One daemon for each data directory: it alone may say that what another one left is over.

The lock is the kernel's and ends with the process, however that ends.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sandbox_skills.daemon.errors import DaemonRunningError
from sandbox_skills.directories import make_private

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

LOCK_FILE = "daemon.lock"
"""Its name in the data directory."""


@contextmanager
def sole_daemon(data_dir: Path) -> Generator[None]:
    """Holds the data directory while the block lasts; raises DaemonRunningError where another daemon does."""
    make_private(data_dir)
    descriptor = os.open(data_dir / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DaemonRunningError(
                f"another daemon works on {data_dir}", hint="stop it, or choose another data_dir"
            ) from error
        yield
    finally:
        os.close(descriptor)
