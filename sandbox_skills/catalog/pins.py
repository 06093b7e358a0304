"""Which content of a skill its user has accepted, and what differs from it now. Pure.

How pins are written: `pin_text`. Which skills a pin holds for: `pin_match`.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sandbox_skills.catalog.text import printable
from sandbox_skills.errors import SkillChangedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_NAMED = 5
"""Paths of each kind that a message names; the rest is counted."""

MAX_SHOWN = 120
"""Characters of one path in a message."""


@dataclass(frozen=True, slots=True)
class Pin:
    """One accepted content of the skill `name` in `folder`, an absolute path.

    `files` says in one text what each path is; `source` is "" where it was not fetched.
    """

    name: str
    digest: str
    files: Mapping[str, str] = field(hash=False)
    source: str = ""
    path: str = ""
    folder: str = ""


@dataclass(frozen=True, slots=True)
class Changes:
    """Paths that differ between two contents of a skill, each group sorted."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)

    def __str__(self) -> str:
        groups = (("added", self.added), ("changed", self.changed), ("removed", self.removed))
        return "; ".join(f"{word} {_some(paths)}" for word, paths in groups if paths) or "nothing"

    def as_dict(self) -> dict[str, list[str]]:
        """Returns the one spelling of changes, for JSON."""
        groups = {"added": self.added, "changed": self.changed, "removed": self.removed}
        return {name: [printable(path) for path in paths] for name, paths in groups.items()}


def compare(before: Mapping[str, str], now: Mapping[str, str]) -> Changes:
    """Returns what became of the paths of a skill."""
    return Changes(
        added=tuple(sorted(now.keys() - before.keys())),
        changed=tuple(sorted(path for path in now.keys() & before.keys() if now[path] != before[path])),
        removed=tuple(sorted(before.keys() - now.keys())),
    )


def changed_since(pin: Pin, now: Mapping[str, str], *, name: str = "") -> SkillChangedError:
    """Returns the error for a skill that is not what `pin` says; `name` is what it calls itself now, where known."""
    changes = compare(pin.files, now)
    name, pinned = printable(name or pin.name), printable(pin.name)
    renamed = f"was pinned as {pinned!r}, now calls itself {name!r}"
    return SkillChangedError(
        f"skill {pinned!r} {'is not what was pinned' if name == pinned else renamed}: {changes}",
        hint=f"look at the changes; accept them with `sandbox-skills trust {shlex.quote(name)}`",
        added=changes.added,
        changed=changes.changed,
        removed=changes.removed,
    )


def _some(paths: Sequence[str]) -> str:
    named = [_short(path) for path in paths[:MAX_NAMED]]
    if len(paths) > MAX_NAMED:
        named.append(f"and {len(paths) - MAX_NAMED} more")
    return ", ".join(named)


def _short(path: str) -> str:
    return repr(path if len(path) <= MAX_SHOWN else path[:MAX_SHOWN] + "…")
