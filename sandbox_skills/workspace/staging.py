"""Stages skills: a folder that may change becomes a copy that does not, named by what is in it.

`skill_tree` reads and refuses, `skill_copy` writes, `store_directory` keeps; this module joins them.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from anyio import to_thread

from sandbox_skills.catalog.pins import changed_since
from sandbox_skills.errors import EngineError, SkillNotFoundError, SkillUnsafeError
from sandbox_skills.spec import SKILLS
from sandbox_skills.uptime import uptime
from sandbox_skills.workspace.eviction import victims
from sandbox_skills.workspace.paths import open_root, shown
from sandbox_skills.workspace.skill_copy import copy_tree, links_taken
from sandbox_skills.workspace.skill_digest import KnownDigests, tree_content
from sandbox_skills.workspace.skill_tree import StageLimits, scan
from sandbox_skills.workspace.staged_before import StagedBefore
from sandbox_skills.workspace.store_directory import StoreDirectory

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path, PurePosixPath

    from sandbox_skills.catalog.pins import Pin
    from sandbox_skills.workspace.skill_tree import SkillTree


@dataclass(frozen=True, slots=True)
class StagedSkill:
    """A skill as boxes see it at `box_path`. `name` is the folder's; `notes` say what differs from the folder."""

    name: str
    digest: str
    box_path: PurePosixPath
    files: int
    bytes: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Removed:
    """What `gc` took: copies by directory name, their bytes, and the number of orphaned temporary copies."""

    copies: tuple[str, ...] = ()
    bytes: int = 0
    orphans: int = 0


class SkillStore:
    """Copies of skills below `root`, which is made where it is missing and must belong to this user.

    Processes may share a store. Raises SettingsError where `root` cannot be used.
    """

    def __init__(self, root: Path, *, limits: StageLimits | None = None) -> None:
        self.limits = limits or StageLimits()
        self._directory = StoreDirectory(root)
        self._digests = KnownDigests()
        self._before = StagedBefore[StagedSkill]()

    @property
    def mount_dir(self) -> Path:
        """The host directory that an engine mounts read-only on /skills."""
        return self._directory.mounted

    def marker(self) -> tuple[str, str]:
        """Returns the name of a file in the mount and its hex SHA-256: a box that sees both has this store."""
        return self._directory.marker()

    def host_path(self, staged: StagedSkill) -> Path:
        """Returns where the copy lies on the host; its links lead to box paths, so open files in it by `paths`."""
        return _host_path(self.mount_dir, staged.box_path)

    async def stage(self, skill_dir: Path, *, tenant: str, pin: Pin | None = None) -> StagedSkill:
        """Copies a skill into the store unless it is there; an unchanged one costs a look at each file's status.

        Tenants share no copy. `skill_dir` may not be a link. With a `pin` the copy that is returned has the pinned
        content, else SkillChangedError. Raises SkillNotFoundError for no such directory, SkillUnsafeError for one
        that cannot be staged, EngineError where the store cannot be written. A cancel waits for the copy in hand.
        """
        staged = self._staged_before(skill_dir, tenant)
        if staged is not None and (pin is None or pin.digest == staged.digest):
            return staged
        return await to_thread.run_sync(self._stage, skill_dir, tenant, pin)

    async def gc(self, *, max_age: float, max_bytes: int, in_use: Collection[PurePosixPath] = ()) -> Removed:
        """Removes copies unused for `max_age` seconds, more down to `max_bytes`, and orphans; tells what went.

        Never a copy whose box path is `in_use`; for room never one used in the last hour. Raises EngineError.
        """
        names = frozenset(path.name for path in in_use)
        return await to_thread.run_sync(partial(self._gc, max_age, max_bytes, names))

    def _staged_before(self, skill_dir: Path, tenant: str) -> StagedSkill | None:
        """Returns the copy of a skill that has not changed since, and counts this as use of it."""
        staged = self._before.look(skill_dir, tenant)
        if staged is None:
            return None
        name = staged.box_path.name
        try:
            there = self._directory.just_used(name) or self._directory.use(name, staged.bytes, wait=False)
        except OSError:
            return None  # the thorough way tells why
        return staged if there else None

    def _stage(self, skill_dir: Path, tenant: str, pin: Pin | None) -> StagedSkill:
        skill_dir = skill_dir.absolute()
        try:
            with open_root(skill_dir) as root_fd:
                return self._stage_open(root_fd, skill_dir, tenant, pin)
        except FileNotFoundError as error:
            raise SkillNotFoundError(f"there is no skill folder {shown(str(skill_dir))}") from error
        except OSError as error:
            raise SkillUnsafeError(
                f"skill folder {shown(str(skill_dir))} cannot be opened: {error.strerror}",
                hint="it must be a directory, not a link to one",
            ) from error

    def _stage_open(self, root_fd: int, skill_dir: Path, tenant: str, pin: Pin | None) -> StagedSkill:
        scanned_ns = time.time_ns()
        root = os.fstat(root_fd)
        tree = scan(root_fd, self.limits)
        digest = self._digests.digest(root_fd, skill_dir, tree, scanned_ns=scanned_ns)
        _check_pin(pin, digest, root_fd, tree)
        digest = self._ensure(root_fd, tree, tenant, digest)
        # The copy is what runs: it may differ from what was read a moment before.
        _check_pin(pin, digest, root_fd, tree)
        staged = StagedSkill(
            name=skill_dir.name,
            digest=digest,
            box_path=SKILLS / self._directory.name(tenant, digest),
            files=tree.files,
            bytes=tree.bytes,
            notes=(*tree.notes, *links_taken(tree)),
        )
        self._before.keep(skill_dir, tenant, root, tree, scanned_ns, staged)
        return staged

    def _ensure(self, root_fd: int, tree: SkillTree, tenant: str, digest: str) -> str:
        """Makes the copy where there is none; returns the digest of what the copy really holds."""
        store = self._directory
        try:
            if store.use(store.name(tenant, digest), tree.bytes):
                return digest
            with store.temporary() as temporary:
                digest = copy_tree(root_fd, tree, temporary)
                store.publish(temporary, store.name(tenant, digest), tree.bytes)
        except OSError as error:
            raise EngineError(f"the skill store {store.root} cannot be written: {error}") from error
        return digest

    def _gc(self, max_age: float, max_bytes: int, in_use: Collection[str]) -> Removed:
        store = self._directory
        try:
            found = victims(
                store.copies(),
                now=time.time(),
                up=uptime(),
                max_age=max_age,
                max_bytes=max_bytes,
                in_use=in_use,
            )
            taken = [copy for copy in found if store.evict(copy)]
            orphans = store.remove_orphans()
        except OSError as error:
            raise EngineError(f"the skill store {store.root} cannot be cleaned: {error}") from error
        return Removed(tuple(copy.name for copy in taken), sum(copy.bytes for copy in taken), orphans)


# Each run asks again.
@lru_cache(maxsize=256)
def _host_path(mounted: Path, box_path: PurePosixPath) -> Path:
    return mounted / box_path.name


def _check_pin(pin: Pin | None, digest: str, root_fd: int, tree: SkillTree) -> None:
    if pin is not None and pin.digest != digest:
        raise changed_since(pin, tree_content(root_fd, tree).files)
