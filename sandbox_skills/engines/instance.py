"""Whose box is it? Each process that makes boxes is an instance, alive as long as it holds its lock file.

The lock is the kernel's and ends with the process, however that ends; a pid could be someone else's by then.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from sandbox_skills.directories import make_private
from sandbox_skills.uptime import uptime

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from types import TracebackType


FORGET_SECONDS = 600.0
"""How long the record of a dead instance stays: a daemon that hung may still make the box it asked for, which is
anyone's to reap only as long as its owner is known to be dead."""


class Instance:
    """A process as an owner of boxes. `id` stands in the labels of each box."""

    def __init__(self, folder: Path) -> None:
        make_private(folder)
        self.id = secrets.token_hex(8)
        self._path = folder / self.id
        # Locked under a name that nobody looks at: a record without a lock would be a dead instance.
        unlocked = folder / f".{self.id}"
        self._descriptor = os.open(unlocked, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        unlocked.rename(self._path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self, *, forget: bool = True) -> None:
        """Ends the instance; its boxes are anyone's to reap from now on. May be called again.

        `forget` False keeps the record, so that the next `reap` knows the owner of boxes that were left.
        """
        if self._descriptor >= 0:
            if forget:
                self._path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = -1


def dead_instances(folder: Path) -> frozenset[str]:
    """Returns the ids of instances that have a record here and no living process.

    An id that is in no record belongs to another data directory, and nothing can be said of it.
    """
    if not folder.is_dir():
        return frozenset()
    return frozenset(path.name for path in folder.iterdir() if path.name.isalnum() and not _locked(path))


def forget_instances(folder: Path, instance_ids: Iterable[str]) -> None:
    """Removes the records of dead instances that own nothing; for FORGET_SECONDS they stay, and are marked as seen."""
    for instance_id in instance_ids:
        with suppress(FileNotFoundError):  # somebody else's reap was first
            _forget(folder / instance_id, uptime())


def _forget(path: Path, now: float) -> None:
    """Notes in a record when it was first seen dead, by the host's uptime; removes it once that is long ago."""
    with path.open("r+", encoding="ascii", errors="replace") as record:
        seen = _seconds(record.read(64))
        if seen is None or seen > now:  # the host was started anew since
            record.seek(0)
            record.truncate()
            record.write(repr(now))  # every digit: rounded up, it would lie ahead of now
        elif now - seen > FORGET_SECONDS:
            path.unlink()


def _seconds(text: str) -> float | None:
    return float(text) if text.replace(".", "", 1).isdecimal() else None


def _locked(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)
