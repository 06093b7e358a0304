"""Where skills are looked for, and which place counts before which. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.catalog.skill import SkillRoot

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sandbox_skills.catalog.registry import Precedence

_SHARED = (".agents/skills", ".claude/skills", ".opencode/skills")
PROJECT_ROOTS = ("skills", *_SHARED)
"""What the client guide of the specification and the common clients use, below a project."""

USER_ROOTS = _SHARED
"""The same below a home directory, where a plain `skills` means nothing."""


def default_roots(project: Path, *, home: Path | None = None) -> tuple[SkillRoot, ...]:
    """Returns the usual roots, the project's before the user's, none of them named by the user.

    In this order `first` lets a project's skill win over the user's.
    """
    found = [SkillRoot(str(project / name), named=False, scope="project") for name in PROJECT_ROOTS]
    if home is not None:
        found += [SkillRoot(str(home / name), named=False, scope="user") for name in USER_ROOTS]
    return tuple(found)


def search_order(
    named: Sequence[SkillRoot],
    installed: SkillRoot,
    found: Sequence[SkillRoot] = (),
    *,
    precedence: Precedence = "first",
) -> tuple[SkillRoot, ...]:
    """Returns the roots in the order of a scan: what the user named counts before what he installed or only has.

    Among the named ones `precedence` decides alone. A found root that is also named is only named.
    """
    known = {installed.path, *(root.path for root in named)}
    others = [root for root in found if root.path not in known]
    if precedence == "last":
        return (*reversed(others), installed, *named)
    return (*named, installed, *others)
