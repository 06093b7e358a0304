"""Where skills are looked for when nobody says where. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.catalog.skill import SkillRoot

if TYPE_CHECKING:
    from pathlib import Path

_SHARED = (".agents/skills", ".claude/skills", ".opencode/skills")
PROJECT_ROOTS = ("skills", *_SHARED)
"""What the client guide of the specification and the common clients use, below a project."""

USER_ROOTS = _SHARED
"""The same below a home directory, where a plain `skills` means nothing."""


def default_roots(project: Path, *, home: Path | None = None) -> tuple[SkillRoot, ...]:
    """Returns the usual roots, the project's before the user's, none of them named by the user.

    In this order `first` lets a project's skill win over the user's; reverse it for `last`.
    """
    found = [SkillRoot(str(project / name), named=False, scope="project") for name in PROJECT_ROOTS]
    if home is not None:
        found += [SkillRoot(str(home / name), named=False, scope="user") for name in USER_ROOTS]
    return tuple(found)
