"""Which content of which skill the user has accepted. Blocking."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_skills.catalog.pin_match import Claim, PinIndex, pins_called
from sandbox_skills.catalog.pins import Changes, Pin, changed_since, compare
from sandbox_skills.errors import SkillUnsafeError
from sandbox_skills.workspace.paths import open_root, shown
from sandbox_skills.workspace.skill_digest import KnownDigests, TreeContent, tree_content
from sandbox_skills.workspace.skill_tree import StageLimits, scan

if TYPE_CHECKING:
    from collections.abc import Collection, Generator

    from sandbox_skills.catalog.lock_file import LockFile
    from sandbox_skills.catalog.pin_match import Place
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

    def demanded(self, spec: SkillSpec, *, asked: str = "") -> Pin | None:
        """Returns the pin that a copy of the skill must meet; None where anything may run under what it goes by.

        `asked` is what the user called it. Raises SkillChangedError where the skill is not what was pinned, whatever
        it calls itself now, and SkillUnsafeError where that cannot be told.
        """
        pins = self._index().holding(_claim(spec, asked))
        digest = self._digest(spec) if pins else ""
        for pin in pins:
            if pin.digest != digest:
                raise changed_since(pin, self.content(Path(spec.dir)).files, name=spec.name)
        return next(iter(pins), None)

    def review(self, skills: tuple[SkillSpec, ...]) -> tuple[SkillSpec, ...]:
        """Returns the skills with `digest` and `accepted` set on those that a pin holds for.

        One whose content has not changed since the last review costs a look at the status of its files.
        """
        if not self._lock.pins():
            return skills
        index = self._index()
        return tuple(self._reviewed(spec, index.holding(_claim(spec))) for spec in skills)

    def _reviewed(self, spec: SkillSpec, pins: tuple[Pin, ...]) -> SkillSpec:
        if not pins:
            return spec
        try:
            digest = self._digest(spec)
        except SkillUnsafeError:
            return replace(spec, accepted=False)
        return replace(spec, digest=digest, accepted=all(pin.digest == digest for pin in pins))

    def _index(self) -> PinIndex:
        return PinIndex((pin, _places(pin.folder)) for pin in self._lock.pins())

    def _digest(self, spec: SkillSpec) -> str:
        scanned_ns = time.time_ns()
        with _opened(Path(spec.dir)) as (folder, root_fd):
            tree = scan(root_fd, self._limits)
            return self._digests.digest(root_fd, folder, tree, scanned_ns=scanned_ns)

    def content(self, folder: Path) -> TreeContent:
        """Returns what a skill's folder holds now; raises SkillUnsafeError for one that cannot be staged."""
        with _opened(folder) as (_, root_fd):
            return tree_content(root_fd, scan(root_fd, self._limits))

    def changes(self, spec: SkillSpec) -> Changes:
        """Returns how a skill differs from its pin; everything counts as added where it has none."""
        return compare(_files(self._before(spec)), self.content(Path(spec.dir)).files)

    def accept(self, spec: SkillSpec) -> Accepted:
        """Pins what a skill holds now, in place of all that was pinned in its folder.

        Where it was fetched from is kept. Raises SkillUnsafeError for one that cannot be staged.
        """
        before, content = self._before(spec), self.content(Path(spec.dir))
        sources = [(pin.source, pin.path) for pin in self.pins_at(Path(spec.dir))]
        source, path = sources[0] if sources else ("", "")
        pin = Pin(spec.name, content.digest, content.files, source, path, str(Path(spec.dir).absolute()))
        self.put(pin)
        return Accepted(pin, compare(_files(before), content.files))

    def _before(self, spec: SkillSpec) -> Pin | None:
        return next(iter(self._index().holding(_claim(spec))), None)

    def pins_at(self, folder: Path) -> tuple[Pin, ...]:
        """Returns the pins of what lies in a folder, whatever its name."""
        places = _places(str(folder))
        return tuple(pin for pin in self._lock.pins() if places & _places(pin.folder))

    def put(self, pin: Pin) -> None:
        """Sets a pin, in place of all others of its folder."""
        places = _places(pin.folder)
        self._lock.put(pin, replaced=lambda old: bool(places & _places(old.folder)))

    def forget(self, name: str) -> bool:
        """Drops the pins that `name` means, so that roots alone decide; returns whether there was one."""
        return self.drop(pins_called(self._lock.pins(), name))

    def drop(self, pins: Collection[Pin]) -> bool:
        """Drops pins; returns whether there was one of them."""
        return bool(pins) and self._lock.drop(lambda pin: pin in pins)


def _claim(spec: SkillSpec, asked: str = "") -> Claim:
    return Claim(spec.name, spec.id, _places(spec.dir), asked)


def _places(folder: str) -> frozenset[Place]:
    """Returns by what a folder is known; its device and inode only while it is there."""
    if not folder:
        return frozenset()
    path = Path(folder).absolute()
    try:
        status = path.stat()
    except OSError:
        return frozenset({str(path)})
    return frozenset({str(path), (status.st_dev, status.st_ino)})


def _files(pin: Pin | None) -> dict[str, str]:
    return dict(pin.files) if pin else {}


@contextmanager
def _opened(folder: Path) -> Generator[tuple[Path, int]]:
    """Gives where a skill's folder really lies, and a descriptor of it; raises SkillUnsafeError."""
    try:
        real = folder.resolve()
        with open_root(real) as root_fd:
            yield real, root_fd
    except OSError as error:
        raise SkillUnsafeError(
            f"skill folder {shown(str(folder))} cannot be read: {error.strerror or error}"
        ) from error
