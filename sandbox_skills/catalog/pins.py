"""`skills.lock`: which content of a skill its user has accepted, and what differs from it now. Pure.

The file is JSON, written the same for the same pins:

    {"version": 1,
     "skills": [{"name": "NAME", "folder": "WHERE IT LIES", "digest": "HEX",
                 "source": "WHERE IT CAME FROM", "path": "WHERE IN IT",
                 "files": {"PATH": "file HEX" | "executable HEX" | "link TARGET" | "directory"}}]}

`digest` is SHA-256 over paths, kinds, executable bits, link targets and bytes; `files` only serves to tell what
changed. `source` and `path` are there for a skill that `add` fetched. Which skills a pin holds for: `pin_match`.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from sandbox_skills.catalog.text import printable
from sandbox_skills.errors import SkillChangedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

VERSION: Literal[1] = 1
"""Of the file's form; a program refuses one it does not know."""

MAX_NAMED = 5
"""Paths of each kind that a message names; the rest is counted."""

_MAX_SHOWN = 120
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
    return repr(path if len(path) <= _MAX_SHOWN else path[:_MAX_SHOWN] + "…")


class _LockedSkill(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: str
    digest: str
    files: dict[str, str]
    source: str = ""
    path: str = ""
    folder: str = ""


class _Lock(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    version: Literal[1]
    skills: list[_LockedSkill]


def render_pins(pins: Iterable[Pin]) -> str:
    """Returns the text of a lock file: sorted, so that equal pins give equal bytes."""
    skills = [
        _LockedSkill(
            name=pin.name,
            digest=pin.digest,
            files=dict(pin.files),
            source=pin.source,
            path=pin.path,
            folder=pin.folder,
        )
        for pin in sorted(pins, key=lambda pin: (pin.name, pin.folder))
    ]
    document = _Lock(version=VERSION, skills=skills).model_dump(exclude_defaults=True)
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def parse_pins(text: str | bytes) -> tuple[Pin, ...]:
    """Returns the pins of a lock file; raises ValueError, with the reason, for any other text."""
    try:
        lock = _Lock.model_validate_json(text)
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(map(str, fault["loc"]))[:_MAX_SHOWN]
        raise ValueError(f"{place}: {fault['msg']}" if place else fault["msg"]) from error
    return tuple(
        Pin(skill.name, skill.digest, skill.files, skill.source, skill.path, skill.folder)
        for skill in lock.skills
    )
