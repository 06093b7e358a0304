"""`skills.lock`: which content of a skill its user has accepted, and what differs from it now. Pure.

The file is JSON, written the same for the same pins:

    {"version": 1,
     "skills": {"NAME": {"digest": "HEX", "source": "WHERE IT CAME FROM", "path": "WHERE IN IT",
                         "files": {"PATH": "file HEX" | "executable HEX" | "link TARGET" | "directory"}}}}

`digest` is SHA-256 over paths, kinds, executable bits, link targets and bytes; `files` only serves to tell what
changed. `source` and `path` are there for a skill that `add` fetched.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from sandbox_skills.catalog.text import printable
from sandbox_skills.errors import SkillChangedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

VERSION = 1

MAX_NAMED = 5
"""Paths of each kind that a message names; the rest is counted."""

_MAX_SHOWN = 120
"""Characters of one path in a message."""


@dataclass(frozen=True, slots=True)
class Pin:
    """One accepted content. `files` says in one text what each path is; `source` is "" where it was not fetched."""

    name: str
    digest: str
    files: Mapping[str, str] = field(hash=False)
    source: str = ""
    path: str = ""


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


def changed_since(pin: Pin, now: Mapping[str, str]) -> SkillChangedError:
    """Returns the error for a skill that is not what `pin` says."""
    changes = compare(pin.files, now)
    return SkillChangedError(
        f"skill {printable(pin.name)!r} is not what was pinned: {changes}",
        hint=f"look at the changes; accept them with `sandbox-skills trust {printable(pin.name)}`",
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


def render_pins(pins: Iterable[Pin]) -> str:
    """Returns the text of a lock file: sorted, so that equal pins give equal bytes."""
    skills = {pin.name: _as_dict(pin) for pin in pins}
    return (
        json.dumps({"version": VERSION, "skills": skills}, indent=1, sort_keys=True, ensure_ascii=True) + "\n"
    )


def _as_dict(pin: Pin) -> dict[str, object]:
    fetched = {"source": pin.source, "path": pin.path} if pin.source else {}
    return {"digest": pin.digest, "files": dict(pin.files), **fetched}


def parse_pins(text: str) -> dict[str, Pin]:
    """Returns the pins of a lock file by name; raises ValueError, with the reason, for any other text."""
    try:
        document: Any = json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    match document:
        case {"version": int(version)} if version != VERSION:
            raise ValueError(f"its version is {version}, not {VERSION}")
        case {"version": int(), "skills": dict(skills)}:
            return {name: _pin(name, value) for name, value in cast("dict[str, object]", skills).items()}
        case _:
            raise ValueError("it has no version or no skills")


def _pin(name: str, value: object) -> Pin:
    match value:
        case {"digest": str(digest), "files": dict(files)} if _texts(cast("dict[str, object]", files)):
            known = cast("dict[str, object]", value)
            source, path = known.get("source", ""), known.get("path", "")
            if isinstance(source, str) and isinstance(path, str):
                return Pin(name, digest, cast("dict[str, str]", files), source, path)
    raise ValueError(f"the pin of {printable(name)[:_MAX_SHOWN]!r} is damaged")


def _texts(files: Mapping[str, object]) -> bool:
    return all(isinstance(content, str) for content in files.values())
