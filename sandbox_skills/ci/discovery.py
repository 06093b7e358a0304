"""The skills at the paths that somebody named, in the order of their folders; broken ones too. Blocking."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_skills.catalog import LENIENT, Severity, SkillRoot, SkillScanner
from sandbox_skills.catalog.rules import Rule
from sandbox_skills.catalog.scan import MAX_DIRECTORIES
from sandbox_skills.catalog.skill_file import FILENAME
from sandbox_skills.errors import InputError
from sandbox_skills.workspace.paths import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandbox_skills.catalog import SkillSpec
    from sandbox_skills.catalog.scan import Issue


_UNSEEN = frozenset({Rule.SCAN_CAPPED.code, Rule.DIRECTORY_UNREADABLE.code})


@dataclass(frozen=True, slots=True)
class FoundSkill:
    """A skill's folder and its file; `spec` is None where that does not load."""

    folder: Path
    file: str
    spec: SkillSpec | None = None


def find_skills(paths: Sequence[Path], *, max_directories: int = MAX_DIRECTORIES) -> list[FoundSkill]:
    """Returns the skills that are, or lie below, the paths; each folder once.

    Raises InputError where there is none, and where there may be others that cannot be seen. Two skills of one name are
    both there: what counts is the folder.
    """
    options = replace(LENIENT, max_directories=max_directories)
    found: dict[Path, FoundSkill] = {}
    for path in paths:
        result = SkillScanner([SkillRoot(str(_folder(path)))], options).scan()
        specs = (*result.skills, *(lost.spec for lost in result.shadowed))
        broken = [issue.path for issue in result.issues if _is_error(issue.diagnostics)]
        here = [FoundSkill(Path(spec.dir), spec.path, spec) for spec in specs]
        here += [FoundSkill(Path(file).parent, file) for file in broken]
        _check_seen(result.issues, {one.folder for one in here})
        if not here:
            raise InputError(
                f"there is no skill in {shown(str(path))}", hint="a skill is a folder with a SKILL.md"
            )
        for one in here:
            found.setdefault(Path(os.path.realpath(one.folder)), one)
    return sorted(found.values(), key=lambda one: str(one.folder))


def _check_seen(issues: Sequence[Issue], skills: set[Path]) -> None:
    """Refuses what was looked at in part, as skills left out would pass unseen; within one its own checks tell that."""
    for issue in issues:
        for item in issue.diagnostics:
            if item.code in _UNSEEN and skills.isdisjoint(Path(issue.path).parents):
                raise InputError(f"{shown(issue.path)}: {item}", hint=item.fix)


def _folder(path: Path) -> Path:
    if path.is_dir():
        return path.absolute()
    if path.is_file() and path.name.casefold() == FILENAME.casefold():
        return path.absolute().parent
    raise InputError(f"there is no skill at {shown(str(path))}", hint="name a folder or a SKILL.md")


def _is_error(diagnostics: Sequence[object]) -> bool:
    return any(getattr(item, "severity", None) is Severity.ERROR for item in diagnostics)
