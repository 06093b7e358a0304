"""The live catalog: roots that are looked at again on every call, so that no change needs a restart. Blocking."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox_skills.catalog.registry import SkillRegistry
from sandbox_skills.catalog.scan import ScanOptions, SkillScanner

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sandbox_skills.catalog.registry import Precedence
    from sandbox_skills.catalog.scan import Issue, ScanResult
    from sandbox_skills.catalog.skill import SkillRoot, SkillSpec

DEPTH = 6
"""Directories below a root that are searched: what other clients do (four to six)."""

LENIENT = ScanOptions(mode="lenient", max_depth=DEPTH)
"""How skills in the wild are read: fewer than half of them follow the specification to the letter."""

RESCAN_SECONDS = 2.0
"""Between two rescans for unknown names: whoever asks for names that do not exist must not keep the disk busy."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What there was at one moment. The very same object is returned as long as nothing has changed."""

    registry: SkillRegistry
    issues: tuple[Issue, ...]
    directories: int


class Catalog:
    """Skills by name and id, as they are now. Safe to use from several threads.

    A call costs a look at the status of each directory and skill file; only what changed is read. `review` is given
    all skills on every call and returns them with what the user has accepted of them: untrusted ones stay flagged.
    Every method raises SettingsError where the review cannot be done.
    """

    def __init__(
        self,
        roots: Sequence[SkillRoot],
        options: ScanOptions = LENIENT,
        *,
        review: Callable[[tuple[SkillSpec, ...]], tuple[SkillSpec, ...]] | None = None,
    ) -> None:
        self._scanner = SkillScanner(roots, options)
        self._precedence: Precedence = options.precedence
        self._review = review or _as_they_are
        self._lock = threading.Lock()
        self._last: tuple[ScanResult, Snapshot] | None = None
        self._rescanned = -RESCAN_SECONDS

    def snapshot(self) -> Snapshot:
        """Returns what there is now."""
        with self._lock:
            return self._snapshot(self._scanner.scan())

    def list(self) -> tuple[SkillSpec, ...]:
        """Returns all skills in the order they were found."""
        return self.snapshot().registry.list()

    def get(self, name: str) -> SkillSpec | None:
        """Returns the skill of that name or id, or None; an unknown one is looked for on disk once more."""
        return self._registry_for(name).get(name)

    def has(self, name: str) -> bool:
        """Whether there is a skill of that name or id."""
        return self.get(name) is not None

    def require(self, name: str) -> SkillSpec:
        """Returns the skill of that name or id; raises SkillNotFoundError with similar names."""
        return self._registry_for(name).require(name)

    def _registry_for(self, name: str) -> SkillRegistry:
        registry = self.snapshot().registry
        return registry if registry.has(name) else self._rescan(registry)

    def _rescan(self, known: SkillRegistry) -> SkillRegistry:
        """Reads everything again, whatever the stamps say, unless that was done a moment ago."""
        with self._lock:
            if time.monotonic() - self._rescanned < RESCAN_SECONDS:
                return known
            snapshot = self._snapshot(self._scanner.scan(fresh=True))
            self._rescanned = time.monotonic()
            return snapshot.registry

    def _snapshot(self, result: ScanResult) -> Snapshot:
        skills = self._review(result.skills)
        if self._last is not None and _same(self._last, result, skills):
            return self._last[1]
        registry = SkillRegistry(skills, result.shadowed, precedence=self._precedence)
        snapshot = Snapshot(registry, result.issues, result.directories)
        self._last = (result, snapshot)
        return snapshot


def _as_they_are(skills: tuple[SkillSpec, ...]) -> tuple[SkillSpec, ...]:
    return skills


def _same(last: tuple[ScanResult, Snapshot], result: ScanResult, skills: tuple[SkillSpec, ...]) -> bool:
    """Whether `skills` and the rest are as they were. Specs that are the same object are not compared further."""
    before, snapshot = last
    same_rest = result is before or (result.shadowed, result.issues) == (before.shadowed, before.issues)
    return same_rest and skills == snapshot.registry.list()
