"""Who may run what, with which variables, secrets and limits. Pure: it decides, and others obey."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.lazy_names import lazy_names

if TYPE_CHECKING:
    from sandbox_skills.policy.deciding import AS_USUAL, Decision, Manner, decide, secrets_of
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

_HOMES = {
    "deciding": ("AS_USUAL", "Decision", "Manner", "decide", "secrets_of"),
    "rules": (
        "NO_CEILINGS",
        "Allowed",
        "Approval",
        "Commands",
        "Policy",
        "RunLimits",
        "SkillRule",
        "TenantPolicy",
        "ToolRule",
        "lowest",
    ),
}

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

__getattr__ = lazy_names(__name__, _HOMES)
