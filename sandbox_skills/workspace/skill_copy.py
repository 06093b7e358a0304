"""Writes the copy of a skill that boxes see: read-only for everyone, with links to the workspace."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from sandbox_skills.workspace.layout import SKILL_LINKS
from sandbox_skills.workspace.skill_digest import file_digest, tree_digest

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox_skills.workspace.skill_tree import Entry, SkillTree

READ_ONLY = 0o444
EXECUTABLE = 0o555
WRITABLE_ROOT = 0o755
"""Mode of a copy's root while it moves: a directory that its owner may not write cannot change its parent."""


def copy_tree(root_fd: int, tree: SkillTree, target: Path) -> str:
    """Fills the empty directory `target` from the skill open at `root_fd`; returns the digest of what was written.

    Files keep their times. Everything but `target` itself loses its write bits. Raises SkillUnsafeError where
    the skill is no longer what the scan saw, OSError where the copy cannot be written.
    """
    digest = write_tree(root_fd, tree, target, modes=(READ_ONLY, EXECUTABLE))
    for name, path in SKILL_LINKS.items():
        if name not in tree.names:
            (target / name).symlink_to(path)
    for entry in tree.entries:
        if entry.kind == "directory":
            (target / entry.path).chmod(EXECUTABLE)
    target.chmod(WRITABLE_ROOT)
    return digest


def write_tree(root_fd: int, tree: SkillTree, target: Path, *, modes: tuple[int, int]) -> str:
    """Writes what the scan saw into the empty directory `target`; returns the digest of what was written.

    `modes` are those of a plain and of an executable file. Raises as `copy_tree` does.
    """
    for entry in tree.entries:
        if entry.kind == "directory":
            (target / entry.path).mkdir(mode=0o700)
    digest = tree_digest(tree, partial(_copy_file, root_fd, target, modes))
    for entry in tree.entries:
        if entry.kind == "link":
            (target / entry.path).symlink_to(entry.target)
    return digest


def _copy_file(root_fd: int, target: Path, modes: tuple[int, int], entry: Entry) -> bytes:
    with (target / entry.path).open("xb") as copy:
        digest = file_digest(root_fd, entry, copy.write)
        copy.flush()
        os.utime(copy.fileno(), ns=(entry.modified_ns, entry.modified_ns))
        os.fchmod(copy.fileno(), modes[entry.executable])
    return digest


def links_taken(tree: SkillTree) -> list[str]:
    """Returns a note for each convenience link that the skill's own entry of that name stands in for."""
    return [
        f"the skill's own {name!r} is kept, so the link to {path} is missing"
        for name, path in SKILL_LINKS.items()
        if name in tree.names
    ]
