"""Reads the files of a scanned skill: its digest, what each path of it is, and whether it is still what the scan saw.

A file is read from the descriptor whose status was compared with the scan, so a swap in between is an error.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from sandbox_skills.errors import PathEscapeError, SkillUnsafeError
from sandbox_skills.spec import KIB
from sandbox_skills.workspace.paths import open_inside, shown
from sandbox_skills.workspace.skill_tree import status_stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from pathlib import Path

    from sandbox_skills.workspace.skill_tree import Entry, SkillTree

CHUNK = 256 * KIB
"""Bytes read at once: past this hashing does not get faster."""

SETTLED_NS = 2_000_000_000
"""A file changed less than this before a scan may change again under the same time stamp: the coarsest stamps in
use (FAT) count two seconds."""

REMEMBERED = 1024
"""Skill folders whose digest stays in memory, some hundred bytes each: more than a catalog has."""


@dataclass(frozen=True, slots=True)
class TreeContent:
    """The digest of a skill, and what each of its paths is in one short text: a hash, a link's target, a directory."""

    digest: str
    files: Mapping[str, str]


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


def tree_content(root_fd: int, tree: SkillTree) -> TreeContent:
    """Returns the digest of the skill open at `root_fd` with its parts; raises SkillUnsafeError where it changed."""
    hashes = {entry.path: file_digest(root_fd, entry) for entry in tree.entries if entry.kind == "file"}
    files = {str(entry.path): _spelled(entry, hashes.get(entry.path, b"")) for entry in tree.entries}
    return TreeContent(tree_digest(tree, lambda entry: hashes[entry.path]), files)


def _spelled(entry: Entry, content: bytes) -> str:
    if entry.kind == "file":
        return f"{'executable' if entry.executable else 'file'} {content.hex()}"
    return f"link {entry.target}" if entry.kind == "link" else "directory"


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


class KnownDigests:
    """Digests of skill folders by what the status of their files was; safe for threads."""

    def __init__(self) -> None:
        self._digests: OrderedDict[Path, tuple[bytes, str]] = OrderedDict()
        self._lock = threading.Lock()

    def digest(self, root_fd: int, skill_dir: Path, tree: SkillTree, *, scanned_ns: int) -> str:
        """Returns the digest of the folder `skill_dir`, open at `root_fd`; reads its files only where they changed.

        `scanned_ns` is when the scan that saw `tree` began. Raises SkillUnsafeError where it has changed since.
        """
        known = self._known(skill_dir, tree)
        if known is not None:
            return known
        digest = tree_digest(tree, partial(file_digest, root_fd))
        if tree.newest_ns + SETTLED_NS < scanned_ns:
            self._keep(skill_dir, tree, digest)
        return digest

    def _known(self, skill_dir: Path, tree: SkillTree) -> str | None:
        with self._lock:
            status, digest = self._digests.get(skill_dir, (b"", ""))
        return digest if status == fingerprint(tree) else None

    def _keep(self, skill_dir: Path, tree: SkillTree, digest: str) -> None:
        with self._lock:
            self._digests[skill_dir] = (fingerprint(tree), digest)
            self._digests.move_to_end(skill_dir)
            while len(self._digests) > REMEMBERED:
                self._digests.popitem(last=False)
