"""Who may run what, with which variables, secrets and limits. Pure. Deny wins; a skill's own words grant nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

Approval = Literal["always", "first_use", "never"]
"""Whether a person is asked: before every call, before the first of a conversation, or not."""

Globs = tuple[str, ...]
"""Patterns in which `*` stands for any text; a word without one stands for itself."""

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Allowed(_Part):
    """What of one kind may be used. None allows all of it; what `deny` names is refused even so."""

    allow: Globs | None = None
    deny: Globs = ()

    def admits(self, text: str) -> bool:
        """Tells whether this may be used."""
        if any(fnmatchcase(text, pattern) for pattern in self.deny):
            return False
        return self.allow is None or any(fnmatchcase(text, pattern) for pattern in self.allow)


class RunLimits(_Part):
    """Ceilings of a run that are lower than the settings' own, in seconds and bytes; None leaves those."""

    wall_seconds: Seconds | None = None
    cpu_seconds: Seconds | None = None
    stdout_bytes: Annotated[int, Field(gt=0)] | None = None
    stderr_bytes: Annotated[int, Field(gt=0)] | None = None


class SkillRule(_Part):
    """What one skill may do. `env` are variables with their values, `secrets` names of what the operator keeps."""

    allow: bool = True
    scripts: Allowed = Allowed()
    commands: Allowed = Allowed()
    env: dict[str, str] = Field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    limits: RunLimits = RunLimits()
    network: Literal["none"] = "none"
    needs_approval: Approval = "never"


class ToolRule(_Part):
    """Whether one tool may be called, and whether a person is asked first."""

    allow: bool = True
    needs_approval: Approval = "never"


class Policy(_Part):
    """The operator's word. `skills` and `tools` are by name; a skill that has no rule has the `default`."""

    default: SkillRule = SkillRule()
    skills: dict[str, SkillRule] = Field(default_factory=dict)
    tools: dict[str, ToolRule] = Field(default_factory=dict)

    def rule_of(self, skill: str) -> SkillRule:
        """Returns the rule of a skill."""
        return self.skills.get(skill, self.default)


@dataclass(frozen=True, slots=True)
class Decision:
    """What the policy says of one call. `reason` is why it is refused; the rest is what an allowed one gets."""

    allowed: bool = True
    reason: str = ""
    approval: Approval = "never"
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    secrets: tuple[str, ...] = ()
    limits: RunLimits = field(default_factory=RunLimits)


_STRICTEST_FIRST: tuple[Approval, ...] = ("always", "first_use")


def decide(
    policy: Policy, *, tool: str = "", skill: str = "", script: str = "", command: str = ""
) -> Decision:
    """Returns what the policy says of a call. Parts that the call does not have are empty, and not judged."""
    tool_rule = policy.tools.get(tool, ToolRule())
    rule = policy.rule_of(skill) if skill else SkillRule()
    if reason := _refusal(rule, tool_rule, tool=tool, skill=skill, script=script, command=command):
        return Decision(allowed=False, reason=reason)
    return Decision(
        approval=_stricter(tool_rule.needs_approval, rule.needs_approval),
        env=rule.env,
        secrets=rule.secrets,
        limits=rule.limits,
    )


def _stricter(one: Approval, other: Approval) -> Approval:
    for approval in _STRICTEST_FIRST:
        if approval in {one, other}:
            return approval
    return "never"


def _refusal(
    rule: SkillRule, tool_rule: ToolRule, *, tool: str, skill: str, script: str, command: str
) -> str:
    if not tool_rule.allow:
        return f"the policy does not allow the tool {tool}"
    if not rule.allow:
        return f"the policy does not allow the skill {skill}"
    if script and not rule.scripts.admits(script):
        return f"the policy does not allow the script {script} of the skill {skill}"
    if command and not rule.commands.admits(command):
        return f"the policy does not allow this command of the skill {skill}"
    return ""


def secrets_of(policy: Policy) -> Collection[str]:
    """Returns the names of every secret that the policy grants anybody."""
    rules = (policy.default, *policy.skills.values())
    return frozenset(name for rule in rules for name in rule.secrets)
