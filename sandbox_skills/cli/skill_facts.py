"""What `list`, `show` and `validate` tell of a skill, as figures and as JSON values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox_skills.catalog import list_skill_resources, render_skill_line, tool_schema
from sandbox_skills.catalog.manifest_load import load_manifest
from sandbox_skills.catalog.rules import Severity

if TYPE_CHECKING:
    from sandbox_skills.catalog import SkillSpec, ToolSpec

CHARACTERS_PER_TOKEN = 4
"""What English text has with the tokenizers of today's models, roughly: only the order of magnitude counts."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How many of each a skill has. `more_resources` says that not all of them were counted."""

    tools: int
    resources: int
    more_resources: bool
    warnings: int

    def as_dict(self) -> dict[str, object]:
        """Returns the figures for JSON."""
        return {
            "tool_count": self.tools,
            "resource_count": self.resources,
            "resources_truncated": self.more_resources,
            "warning_count": self.warnings,
        }


def counts(spec: SkillSpec) -> Counts:
    """Returns the figures of a skill, read from its folder; the warnings are its SKILL.md's own.

    Raises SkillLoadError where the skill has gone.
    """
    files = list_skill_resources(spec)
    return Counts(
        tools=len(load_manifest(spec).tools),
        resources=sum(map(len, (files.scripts, files.references, files.assets, files.other))),
        more_resources=files.truncated,
        warnings=sum(item.severity is Severity.WARNING for item in spec.diagnostics),
    )


def approximate_tokens(spec: SkillSpec, *, shadowed: bool = False) -> dict[str, int]:
    """Returns about how much a model reads of a skill: in its prompt, 0 if that leaves it out, and when it loads it."""
    told = spec.trusted and spec.model_invocable and not shadowed
    sizes = {"prompt": len(render_skill_line(spec)) if told else 0, "body": spec.body_chars}
    return {name: -(-size // CHARACTERS_PER_TOKEN) for name, size in sizes.items()}


def tool_as_dict(tool: ToolSpec) -> dict[str, object]:
    """Returns a tool for JSON, with the schema that its calls must meet."""
    return {
        "name": tool.name,
        "description": tool.description,
        "script": tool.script,
        "parameters": tool_schema(tool),
    }


def signature(tool: ToolSpec) -> str:
    """Returns a tool's name and parameters, a question mark behind those that a call may leave out."""
    names = (name if name in tool.required else f"{name}?" for name in tool.parameters)
    return f"{tool.name}({', '.join(names)})"
