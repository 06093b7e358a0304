"""The lock file on disk: read when it has changed, written whole or not at all. Blocking."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sandbox_skills.catalog.regular_file import read_regular
from sandbox_skills.catalog.skill_file import Stamp, settled, stamp_of
from sandbox_skills.directories import disk_failed, make_private
from sandbox_skills.errors import EngineError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from sandbox_skills.catalog.pins import Pin
    from sandbox_skills.errors import SandboxSkillsError

MAX_BYTES = 64 * 1024 * 1024
"""Longest file that is read: a pin of 42 files has 5 kB, so more than ten thousand skills."""

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class LockFile:
    """The pins of one user. Several processes may use it; safe for threads.

    Every method raises SettingsError where the file cannot be read, understood or written, and EngineError where
    its disk is at fault: a damaged lock never counts as an empty one, which would accept everything.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._stamp: Stamp | None = None
        self._pins: tuple[Pin, ...] = ()

    def pins(self) -> tuple[Pin, ...]:
        """Returns the pins, the very same object while nothing has changed; none where there is no file."""
        with self._lock:
            return self._read()

    def put(self, pin: Pin, *, replaced: Callable[[Pin], bool] = lambda _: False) -> None:
        """Adds a pin in place of those that `replaced` says, and of one with its name and folder."""
        with self._changing() as pins:
            key = (pin.name, pin.folder)
            pins[:] = [old for old in pins if (old.name, old.folder) != key and not replaced(old)]
            pins.append(pin)

    def drop(self, unwanted: Callable[[Pin], bool]) -> bool:
        """Removes the pins that are not wanted; returns whether there was one."""
        with self._changing() as pins:
            kept = [pin for pin in pins if not unwanted(pin)]
            dropped = len(kept) < len(pins)
            pins[:] = kept
        return dropped

    def _read(self) -> tuple[Pin, ...]:
        try:
            now, stamp = time.time_ns(), stamp_of(self.path.stat())
            if stamp != self._stamp:
                from sandbox_skills.catalog.pin_text import parse_pins  # noqa: PLC0415  # most users pin nothing

                self._pins = parse_pins(read_regular(self.path, MAX_BYTES))
                # A file that was written just now may change again under the same stamp.
                self._stamp = stamp if settled(stamp, now) else None
        except FileNotFoundError:
            self._stamp, self._pins = None, ()
        except (OSError, ValueError) as error:
            raise SettingsError(
                f"{self.path}: cannot be used: {error}", hint="repair it, or move it away and trust anew"
            ) from error
        return self._pins

    @contextmanager
    def _changing(self) -> Generator[list[Pin]]:
        """Gives the pins to change and writes them afterwards; nobody else writes in between."""
        try:
            make_private(self.path.parent)
            with self._lock, exclusive(self.path.parent):
                pins = list(self._read())
                yield pins
                from sandbox_skills.catalog.pin_text import render_pins  # noqa: PLC0415  # likewise

                self._write(render_pins(pins))
                self._stamp = None
        except OSError as error:
            raise unwritable(self.path, error) from error

    def _write(self, text: str) -> None:
        # One name, which only the holder of the lock uses: what a killed process left goes with the next write.
        temporary = self.path.with_name(f".{self.path.name}-new")
        temporary.unlink(missing_ok=True)
        try:
            with open(os.open(temporary, _NEW, 0o600), "wb") as file:  # noqa: PTH123 - a descriptor, not a path
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.path)
        finally:
            temporary.unlink(missing_ok=True)


def unwritable(path: Path, error: OSError) -> SandboxSkillsError:
    """Returns the error for a path of ours that cannot be written: the disk's fault, or that of the settings."""
    kind = EngineError if disk_failed(error) else SettingsError
    return kind(f"{path}: cannot be written: {error.strerror or error}")


@contextmanager
def exclusive(directory: Path) -> Generator[None]:
    """Waits until no other process is writing in `directory`."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
