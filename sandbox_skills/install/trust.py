"""Which content of which skill the user has accepted. Blocking."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_skills.catalog.pins import Changes, Pin, compare
from sandbox_skills.errors import SkillUnsafeError
from sandbox_skills.workspace.paths import open_root, shown
from sandbox_skills.workspace.skill_digest import KnownDigests, TreeContent, tree_content
from sandbox_skills.workspace.skill_tree import StageLimits, scan

if TYPE_CHECKING:
    from sandbox_skills.catalog.lock_file import LockFile
    from sandbox_skills.catalog.skill import SkillSpec


@dataclass(frozen=True, slots=True)
class Accepted:
    """A pin, and what it changes against the one before it; everything counts as added where there was none."""

    pin: Pin
    changes: Changes


class Trust:
    """Pins skills and tells which still are what was pinned. Safe for threads.

    Every method raises SettingsError where the lock file cannot be used.
    """

    def __init__(self, lock: LockFile, limits: StageLimits | None = None) -> None:
        self._lock = lock
        self._limits = limits or StageLimits()
        self._digests = KnownDigests()

    def pin(self, name: str) -> Pin | None:
        """Returns the pin of that name; None where anything may run under it."""
        return self._lock.pins().get(name)

    def review(self, skills: tuple[SkillSpec, ...]) -> tuple[SkillSpec, ...]:
        """Returns the skills with `digest` and `accepted` set on those whose name is pinned.

        One whose content has not changed since the last review costs a look at the status of its files.
        """
        pins = self._lock.pins()
        if not pins:
            return skills
        return tuple(self._reviewed(spec, pins[spec.name]) if spec.name in pins else spec for spec in skills)

    def _reviewed(self, spec: SkillSpec, pin: Pin) -> SkillSpec:
        try:
            digest = self._digest(Path(spec.dir).resolve())
        except (OSError, SkillUnsafeError):
            return replace(spec, accepted=False)
        return replace(spec, digest=digest, accepted=digest == pin.digest)

    def _digest(self, folder: Path) -> str:
        scanned_ns = time.time_ns()
        with open_root(folder) as root_fd:
            tree = scan(root_fd, self._limits)
            return self._digests.digest(root_fd, folder, tree, scanned_ns=scanned_ns)

    def content(self, folder: Path) -> TreeContent:
        """Returns what a skill's folder holds now; raises SkillUnsafeError for one that cannot be staged."""
        try:
            with open_root(folder) as root_fd:
                return tree_content(root_fd, scan(root_fd, self._limits))
        except OSError as error:
            raise SkillUnsafeError(
                f"skill folder {shown(str(folder))} cannot be read: {error.strerror}"
            ) from error

    def changes(self, spec: SkillSpec) -> Changes:
        """Returns how a skill differs from its pin; everything counts as added where it has none."""
        pin = self.pin(spec.name)
        return compare(pin.files if pin else {}, self.content(Path(spec.dir).resolve()).files)

    def accept(self, spec: SkillSpec) -> Accepted:
        """Pins what a skill holds now; raises SkillUnsafeError for one that cannot be staged.

        Where it was fetched from is kept.
        """
        before = self.pin(spec.name)
        content = self.content(Path(spec.dir).resolve())
        source, path = (before.source, before.path) if before else ("", "")
        pin = Pin(spec.name, content.digest, content.files, source, path)
        self._lock.put(pin)
        return Accepted(pin, compare(before.files if before else {}, content.files))

    def put(self, pin: Pin) -> None:
        """Sets a pin."""
        self._lock.put(pin)

    def forget(self, name: str) -> bool:
        """Drops the pin of a name, so that its root alone decides; returns whether there was one."""
        return self._lock.drop(name)
