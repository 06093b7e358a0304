"""Audit events as JSON lines in a file of this user's alone, kept short by rotation."""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from sandbox_skills.directories import make_private
from sandbox_skills.spec import MIB

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox_skills.telemetry.audit import AuditEvent
    from sandbox_skills.telemetry.events import ToolResponse

logger = logging.getLogger(__name__)

MAX_BYTES = 16 * MIB
"""Of one file: about 20,000 runs, still opened by any editor."""

KEPT_FILES = 5
"""Files beside the current one: 100,000 runs in all."""

_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class AuditFile:
    """An AuditLog in `path`, mode 0600; `path.1` is the file before it. Processes may share it.

    Each event is one write, so lines of several writers never mix. A disk that takes none is logged, once until
    it does again: a run that is over is not undone for it.
    """

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES, kept_files: int = KEPT_FILES) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._kept_files = kept_files
        self._failing = False

    def record(self, event: AuditEvent | ToolResponse) -> None:
        line = json.dumps(event.as_dict(), separators=(",", ":")).encode() + b"\n"
        try:
            self._append(line)
        except OSError as error:
            if not self._failing:
                logger.error("the audit log %s cannot be written: %s", self._path, error.strerror)  # noqa: TRY400  # a full disk is no bug of ours
            self._failing = True
        else:
            self._failing = False

    def _append(self, line: bytes) -> None:
        file = self._opened()
        try:
            mine = _locked(file)
            if mine and 0 < os.fstat(file).st_size > self._max_bytes - len(line):
                self._rotate(file)
                os.close(file)
                file = self._opened()
                mine = _locked(file)
            # A file that another process has rotated meanwhile still takes the line.
            written = os.write(file, line)
            if written < len(line):
                if mine:  # a part of a line would spoil the next one
                    os.ftruncate(file, os.fstat(file).st_size - written)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(file)

    def _opened(self) -> int:
        """Opens the file anew for each event: another process may have rotated it."""
        try:
            return os.open(self._path, _APPEND, 0o600)
        except FileNotFoundError:
            make_private(self._path.parent)
            return os.open(self._path, _APPEND, 0o600)

    def _rotate(self, file: int) -> None:
        """Gives each file the next number, unless another process has done so since `file` was opened."""
        with suppress(FileNotFoundError):
            if self._path.stat().st_ino != os.fstat(file).st_ino:
                return
        for number in range(self._kept_files, 0, -1):
            older = self._numbered(number)
            with suppress(FileNotFoundError):
                self._numbered(number - 1).replace(older)

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path


def _locked(file: int) -> bool:
    """Tells whether the lock could be had at once. An event waits for nobody: the next one rotates as well."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
