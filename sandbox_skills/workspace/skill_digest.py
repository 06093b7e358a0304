"""Reads the files of a scanned skill: its digest, and whether it is still what the scan saw.

A file is read from the descriptor whose status was compared with the scan, so a swap in between is an error.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sandbox_skills.errors import PathEscapeError, SkillUnsafeError
from sandbox_skills.spec import KIB
from sandbox_skills.workspace.paths import open_inside, shown
from sandbox_skills.workspace.skill_tree import status_stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from sandbox_skills.workspace.skill_tree import Entry, SkillTree

CHUNK = 256 * KIB
"""Bytes read at once: past this hashing does not get faster."""


def fingerprint(tree: SkillTree) -> bytes:
    """Returns a short value that is the same only as long as no file of the tree has changed its status."""
    summary = hashlib.sha256()
    for entry in tree.entries:
        summary.update(repr((str(entry.path), entry.kind, entry.target, entry.stamp)).encode())
    return summary.digest()


def tree_digest(tree: SkillTree, file_digest: Callable[[Entry], bytes]) -> str:
    """Returns the hex SHA-256 over paths, kinds, executable bits, link targets and the digests of the files.

    Every field carries its length, so that no two trees spell the same bytes. Calls `file_digest` once for
    each file, in the order of the tree.
    """
    summary = hashlib.sha256(b"sandbox-skills tree 1\n")
    for entry in tree.entries:
        content = file_digest(entry) if entry.kind == "file" else entry.target.encode()
        for value in (entry.kind.encode(), str(entry.path).encode(), b"x" * entry.executable, content):
            summary.update(len(value).to_bytes(8, "big") + value)
    return summary.hexdigest()


def file_digest(root_fd: int, entry: Entry, write: Callable[[bytes], object] | None = None) -> bytes:
    """Returns the SHA-256 of a file's bytes, which are given to `write` on the way.

    Raises SkillUnsafeError where the file is no longer what the scan saw.
    """
    summary = hashlib.sha256()
    with _opened(root_fd, entry) as file_fd:
        left = entry.size
        while left and (data := os.read(file_fd, min(CHUNK, left))):
            left -= len(data)
            summary.update(data)
            if write is not None:
                write(data)
        if left or status_stamp(os.fstat(file_fd)) != entry.stamp:
            raise _changed(entry)
    return summary.digest()


@contextmanager
def _opened(root_fd: int, entry: Entry) -> Generator[int]:
    try:
        file_fd = open_inside(root_fd, entry.path, os.O_RDONLY)
    except PermissionError as error:
        raise SkillUnsafeError(f"{shown(str(entry.path))} cannot be read: {error.strerror}") from error
    except (OSError, PathEscapeError) as error:
        raise _changed(entry) from error
    try:
        if status_stamp(os.fstat(file_fd)) != entry.stamp:
            raise _changed(entry)
        yield file_fd
    finally:
        os.close(file_fd)


def _changed(entry: Entry) -> SkillUnsafeError:
    return SkillUnsafeError(
        f"{shown(str(entry.path))} changed while it was staged", hint="stage the skill again"
    )
