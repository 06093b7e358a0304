"""What a person is told where a model would be offered no skill. Blocking: looks at the skills."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.cli.skills import NO_SKILLS_HINT
from sandbox_skills.cli.text import counted

if TYPE_CHECKING:
    from sandbox_skills.toolsets.offered import OfferedSkills


def nothing_offered(skills: OfferedSkills) -> str:
    """Returns why no skill is offered, with the next step, and "" where one is."""
    if skills.names():
        return ""
    found = skills.source.list()
    if not found:
        return f"no skill is offered; {NO_SKILLS_HINT}"
    told = f"no skill is offered, though {counted(len(found), 'skill is', 'skills are')} there"
    if any(spec.trusted for spec in found):
        return f"{told}: the settings, the policy or the skills themselves keep models from them"
    return f"{told}: {NO_SKILLS_HINT}, or accept one with sandbox-skills trust NAME"
