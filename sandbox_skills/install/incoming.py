"""Directories in which skills arrive: each is locked by the process that fills it, and goes with it.

The lock is the kernel's and ends with the process, however that ends. Blocking.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_skills.catalog.lock_file import exclusive, unwritable
from sandbox_skills.directories import disk_failed, make_private
from sandbox_skills.workspace.skill_copy import remove_tree

if TYPE_CHECKING:
    from collections.abc import Generator

PREFIX = ".incoming-"
"""Scans for skills skip hidden folders."""


@contextmanager
def incoming_directory(root: Path) -> Generator[Path]:
    """Gives an empty directory below `root`, which is made where it is missing; all in it is removed afterwards.

    What dead processes have left is removed first. Raises SettingsError where `root` cannot be written, EngineError
    where its disk is at fault, then and while the directory is in use.
    """
    try:
        make_private(root)
        sweep(root)
        path, lock_fd = _locked_directory(root)
    except OSError as error:
        raise unwritable(root, error) from error
    try:
        yield path
    except OSError as error:
        if disk_failed(error):
            raise unwritable(root, error) from error
        raise
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock_fd)


def sweep(root: Path) -> list[str]:
    """Removes the directories whose process is gone; returns their names. Raises OSError."""
    if not root.is_dir():
        return []
    with exclusive(root):
        found = [path for path in root.iterdir() if path.name.startswith(PREFIX) and not _in_use(path)]
        for path in found:
            remove_tree(path)
    return [path.name for path in found]


def _locked_directory(root: Path) -> tuple[Path, int]:
    # Nobody sweeps between the two steps.
    with exclusive(root):
        path = Path(tempfile.mkdtemp(dir=root, prefix=PREFIX))
        lock_fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(lock_fd, fcntl.LOCK_EX)
    return path, lock_fd


def _in_use(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
