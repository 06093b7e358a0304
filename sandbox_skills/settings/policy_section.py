"""The settings of what models are offered, who may run what, and where secrets are."""

from typing import Annotated

from pydantic import BeforeValidator, Field

from sandbox_skills.policy.rules import Policy, SkillRule, TenantPolicy, ToolRule
from sandbox_skills.settings.section import AbsolutePath, Section, words


class PolicySettings(Section):
    """Who may run what, as `policy.Policy`, here or in a file of its own, which has the other four at its top."""

    file: AbsolutePath | None = None
    default: SkillRule = SkillRule.model_construct()
    skills: dict[str, SkillRule] = Field(default_factory=dict)
    tools: dict[str, ToolRule] = Field(default_factory=dict)
    tenants: dict[str, TenantPolicy] = Field(default_factory=dict)

    def rules(self) -> Policy:
        """Returns the policy; that of a file is in it when `load_settings` made the settings."""
        return Policy(default=self.default, skills=self.skills, tools=self.tools, tenants=self.tenants)


class SecretsSettings(Section):
    """Where granted secrets are: in a file of variables, in files of a folder, else in the environment."""

    file: AbsolutePath | None = None
    folder: AbsolutePath | None = None


class ToolsSettings(Section):
    """What is offered to models: which toolsets, over which skills.

    None includes every skill, and saves no tool of a model's.
    """

    toolsets: Annotated[tuple[str, ...], BeforeValidator(words), Field(min_length=1)] = ("openrouter",)
    include: Annotated[tuple[str, ...], BeforeValidator(words)] | None = None
    exclude: Annotated[tuple[str, ...], BeforeValidator(words)] = ()
    save_to: AbsolutePath | None = None
