"""Who may run what, with which variables, secrets and limits. Pure: it decides, and others obey."""

from sandbox_skills.policy.decide import AS_USUAL, Decision, Manner, decide, secrets_of
from sandbox_skills.policy.rules import (
    NO_CEILINGS,
    Allowed,
    Approval,
    Commands,
    Policy,
    RunLimits,
    SkillRule,
    TenantPolicy,
    ToolRule,
    lowest,
)

__all__ = [
    "AS_USUAL",
    "NO_CEILINGS",
    "Allowed",
    "Approval",
    "Commands",
    "Decision",
    "Manner",
    "Policy",
    "RunLimits",
    "SkillRule",
    "TenantPolicy",
    "ToolRule",
    "decide",
    "lowest",
    "secrets_of",
]
