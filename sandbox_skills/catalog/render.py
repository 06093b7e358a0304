"""The list of skills as a model sees it: one escaped line each, so that no description can speak for the host. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sandbox_skills.catalog.fields import MAX_COMPATIBILITY, MAX_DESCRIPTION, MAX_NAME
from sandbox_skills.catalog.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sandbox_skills.catalog.registry import SkillRegistry
    from sandbox_skills.catalog.skill import SkillSpec

_BLOCK_START = re.compile(r"^(\d*)([#*+~=_|`:.)-])")
"""What makes a heading, a list, a rule, a table or a fence of a line that begins with it."""

_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def render_skills_block(registry: SkillRegistry, allowed: Iterable[str]) -> str:
    """Returns the block for the system prompt: the allowed skills that the registry knows, in that order.

    "" where there is none. Left out: skills that hide from models, and skills whose root nobody named.
    """
    known = {spec.id: spec for name in allowed if (spec := registry.get(name)) is not None}
    lines = [render_skill_line(spec) for spec in known.values() if spec.model_invocable and spec.trusted]
    return "\n".join(["## Available skills", "", *lines]) if lines else ""


def render_skill_line(spec: SkillSpec) -> str:
    """Returns one skill as one line of Markdown, markup escaped and long texts cut."""
    line = f"- **{safe_line(spec.name, MAX_NAME)}**: {safe_line(spec.description, MAX_DESCRIPTION)}"
    if spec.compatibility:
        line += f" (Compatibility: {safe_line(spec.compatibility, MAX_COMPATIBILITY)})"
    return line


def render_summary_line(spec: SkillSpec) -> str:
    """Returns one skill as the shortest line that tells what it is for."""
    return f"- {render_skill_name(spec)}: {safe_line(spec.description, MAX_DESCRIPTION)}"


def render_skill_name(spec: SkillSpec) -> str:
    """Returns a skill's name as it may stand in a prompt."""
    return safe_line(spec.name, MAX_NAME)


def render_skill_section(spec: SkillSpec) -> str:
    """Returns one skill as a Markdown heading and its description below, which begins no block of its own."""
    description = _BLOCK_START.sub(r"\1\\\2", safe_line(spec.description, MAX_DESCRIPTION))
    return f"### {render_skill_name(spec)}\n{description}"


def safe_line(text: str, limit: int) -> str:
    """Returns a stranger's text as one line in which no markup and no invisible character is left."""
    return one_line(text, limit).translate(_ESCAPES)
