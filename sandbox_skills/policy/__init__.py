"""Who may run what, with which variables, secrets and limits. Pure: it decides, and others obey."""

from sandbox_skills.policy.decide import AS_USUAL, Decision, Manner, decide, secrets_of
from sandbox_skills.policy.rules import (
    Allowed,
    Approval,
    Commands,
    Policy,
    RunLimits,
    SkillRule,
    TenantPolicy,
    ToolRule,
)

__all__ = [
    "AS_USUAL",
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
    "secrets_of",
]
