"""`skills.lock`: the form of the file. Pure.

It is JSON, written the same for the same pins:

    {"version": 1,
     "skills": [{"name": "NAME", "folder": "WHERE IT LIES", "digest": "HEX",
                 "source": "WHERE IT CAME FROM", "path": "WHERE IN IT",
                 "files": {"PATH": "file HEX" | "executable HEX" | "link TARGET" | "directory"}}]}

`digest` is SHA-256 over paths, kinds, executable bits, link targets and bytes; `files` only serves to tell what
changed. `source` and `path` are there for a skill that `add` fetched.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from sandbox_skills.catalog.pins import MAX_SHOWN, Pin

if TYPE_CHECKING:
    from collections.abc import Iterable

VERSION: Literal[1] = 1
"""Of the file's form; a program refuses one it does not know."""


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
        place = ".".join(map(str, fault["loc"]))[:MAX_SHOWN]
        raise ValueError(f"{place}: {fault['msg']}" if place else fault["msg"]) from error
    return tuple(
        Pin(skill.name, skill.digest, skill.files, skill.source, skill.path, skill.folder)
        for skill in lock.skills
    )
