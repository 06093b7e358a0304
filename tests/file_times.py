"""Times of files, which a kernel before 6.13 counts in its ticks: changes within one of them bear the same time."""

from __future__ import annotations

import os
import tempfile
import time


def past_the_tick() -> None:
    """Returns when a file that is changed has another time than those that were changed before the call."""
    with tempfile.TemporaryFile() as probe:
        first = os.fstat(probe.fileno()).st_mtime_ns
        while os.fstat(probe.fileno()).st_mtime_ns == first:
            time.sleep(0.001)
            os.utime(probe.fileno())
