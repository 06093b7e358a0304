"""Files that a SKILL.md names, looked for in its folder."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import unquote

from sandbox_skills.ci.observed import Failure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandbox_skills.catalog import SkillSpec

MAX_REFERENCES = 500
"""Names that are looked for: a long SKILL.md has dozens."""

_LINK = re.compile(r"\]\(\s*<?([^\s)>]{1,500})>?[^)\n]{0,200}\)")
_PLACE = re.compile(r"(?<![\w/.$}-])((?:scripts|references|assets)/[\w./-]{1,300}\.\w{1,10})(?![\w/*{<-])")
"""How instructions name files without a link: below one of the folders that the specification names, with an ending."""

_ELSEWHERE = re.compile(r"^(?:[a-z][a-z0-9+.-]*:|#|/|//|mailto:)|[*{}<>$]", re.IGNORECASE)


def named_files(body: str) -> list[str]:
    """Returns the paths of files that the text of a SKILL.md names, each once, in their order. Pure."""
    return list(dict.fromkeys(_named(body)))[:MAX_REFERENCES]


def _named(body: str) -> Iterator[str]:
    for text in _LINK.findall(body):
        if not _ELSEWHERE.search(text):
            path = unquote(text.partition("#")[0].partition("?")[0])
            if path.strip("/."):
                yield path
    yield from _PLACE.findall(body)


def missing_files(spec: SkillSpec) -> tuple[Failure, ...]:
    """Returns a failure for each file that the SKILL.md names and the skill has not. Blocking."""
    root = Path(os.path.realpath(spec.dir))
    names = (name for name in named_files(spec.body) if not _is_there(root, name))
    return tuple(Failure("references", f"SKILL.md names {name}, which is not in the skill") for name in names)


def _is_there(root: Path, name: str) -> bool:
    if "\0" in name or len(os.fsencode(name)) > _MAX_PATH:
        return False
    real = Path(os.path.realpath(root / PurePosixPath(name)))
    return (real == root or root in real.parents) and real.exists()


_MAX_PATH = 1024
"""Bytes of the longest path that can be staged."""
