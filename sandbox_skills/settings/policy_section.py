"""The settings of what models are offered, who may run what, and where secrets are."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from sandbox_skills.policy.rules import Policy, SkillRule, TenantPolicy, ToolRule
from sandbox_skills.settings.section import Section

if TYPE_CHECKING:
    from sandbox_skills.settings.kinds import AbsolutePath, Annotated, Field, Words


class PolicySettings(Section):
    """Who may run what, as `policy.Policy`, here or in a file of its own, which has the other four at its top."""

    file: AbsolutePath | None = None
    default: SkillRule = SkillRule()
    skills: dict[str, SkillRule] = field(default_factory=dict[str, SkillRule])
    tools: dict[str, ToolRule] = field(default_factory=dict[str, ToolRule])
    tenants: dict[str, TenantPolicy] = field(default_factory=dict[str, TenantPolicy])

    def rules(self) -> Policy:
        """Returns the policy; that of a file is in it when `load_settings` made the settings."""
        return Policy.of({name: getattr(self, name) for name in self.given - {"file"}})


class SecretsSettings(Section):
    """Where granted secrets are: in a file of variables, in files of a folder, else in the environment."""

    file: AbsolutePath | None = None
    folder: AbsolutePath | None = None


class ToolsSettings(Section):
    """What is offered to models: which toolsets, over which skills.

    None includes every skill, and saves no tool of a model's.
    """

    toolsets: Annotated[tuple[str, ...], Words, Field(min_length=1)] = ("openrouter",)
    include: Annotated[tuple[str, ...], Words] | None = None
    exclude: Annotated[tuple[str, ...], Words] = ()
    save_to: AbsolutePath | None = None
