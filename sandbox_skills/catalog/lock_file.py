"""The lock file on disk: read when it has changed, written whole or not at all. Blocking."""

from __future__ import annotations

import fcntl
import os
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from sandbox_skills.catalog.pins import Pin, parse_pins, render_pins
from sandbox_skills.catalog.skill_file import Stamp, settled, stamp_of
from sandbox_skills.directories import make_private
from sandbox_skills.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

MAX_BYTES = 64 * 1024 * 1024
"""Longest file that is read: a pin of 42 files has 5 kB, so more than ten thousand skills."""

_NONE: Mapping[str, Pin] = MappingProxyType({})


class LockFile:
    """The pins of one user. Several processes may use it; safe for threads.

    Every method raises SettingsError where the file cannot be read, understood or written: a damaged lock never
    counts as an empty one, which would accept everything.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._stamp: Stamp | None = None
        self._pins = _NONE

    def pins(self) -> Mapping[str, Pin]:
        """Returns the pins by the name of the skill; none where there is no file."""
        with self._lock:
            return self._read()

    def put(self, pin: Pin) -> None:
        """Sets the pin of a skill."""
        with self._changing() as pins:
            pins[pin.name] = pin

    def drop(self, name: str) -> bool:
        """Removes the pin of a skill; returns whether there was one."""
        with self._changing() as pins:
            return pins.pop(name, None) is not None

    def _read(self) -> Mapping[str, Pin]:
        try:
            now, stamp = time.time_ns(), stamp_of(self.path.stat())
            if stamp != self._stamp:
                self._pins = MappingProxyType(parse_pins(self._bytes()))
                # A file that was written just now may change again under the same stamp.
                self._stamp = stamp if settled(stamp, now) else None
        except FileNotFoundError:
            self._stamp, self._pins = None, _NONE
        except (OSError, ValueError) as error:
            raise SettingsError(
                f"{self.path}: cannot be used: {error}", hint="repair it, or move it away and trust anew"
            ) from error
        return self._pins

    def _bytes(self) -> bytes:
        with self.path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ValueError(f"it is longer than {MAX_BYTES} bytes")
        return data

    @contextmanager
    def _changing(self) -> Generator[dict[str, Pin]]:
        """Gives the pins to change and writes them afterwards; nobody else writes in between."""
        try:
            make_private(self.path.parent)
            with self._lock, _exclusive(self.path.parent):
                pins = dict(self._read())
                yield pins
                self._write(render_pins(pins.values()))
                self._stamp = None
        except OSError as error:
            raise SettingsError(f"{self.path}: cannot be written: {error}") from error

    def _write(self, text: str) -> None:
        descriptor, temporary = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}-")
        try:
            with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor, not a path
                file.write(text.encode())
                file.flush()
                os.fsync(descriptor)
            Path(temporary).replace(self.path)
        finally:
            Path(temporary).unlink(missing_ok=True)


@contextmanager
def _exclusive(directory: Path) -> Generator[None]:
    """Waits until no other process is writing in `directory`."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
