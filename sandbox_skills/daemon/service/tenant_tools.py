"""The tools of one tenant: its skills under its policy, as one toolbox for each choice of toolsets."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from sandbox_skills.catalog import defined_tools
from sandbox_skills.daemon.access.limits import tenant_limits
from sandbox_skills.daemon.access.policies import policy_of
from sandbox_skills.directories import make_private
from sandbox_skills.policy import RunLimits, decide
from sandbox_skills.toolsets.offered import OfferedSkills
from sandbox_skills.toolsets.skill_runs import SkillRuns
from sandbox_skills.toolsets.tool_making import ToolMaking
from sandbox_skills.wiring.tools import (
    ToolsetParts,
    check_toolsets,
    make_toolsets,
    toolbox_of,
    toolset_options,
)

if TYPE_CHECKING:
    from sandbox_skills.catalog import SkillSpec
    from sandbox_skills.daemon.access.limits import SandboxCeiling
    from sandbox_skills.daemon.service.tenant_skills import TenantSkills
    from sandbox_skills.daemon.truth.tenants import Tenant
    from sandbox_skills.toolsets.skill_runs import Demand
    from sandbox_skills.toolsets.toolbox import Toolbox
    from sandbox_skills.wiring import Live

MAKING = "native"
"""The toolset that has tools which make tools, for which a tenant needs a folder."""

MAX_TOOLBOXES = 16
"""Choices of toolsets that are remembered for a tenant: there are more orders of them than anybody means."""


class TenantTools:
    """What one tenant's models are offered, and what runs it. To be closed; blocking."""

    def __init__(self, live: Live, skills: TenantSkills, tenant: Tenant, demanded: Demand) -> None:
        policy = policy_of(
            live.settings.policy.rules(), tenant.policy, tenant_id=tenant.id, tenant_name=tenant.name
        )

        def admits(spec: SkillSpec) -> bool:
            return decide(policy, tenant=tenant.id, skill=spec.name).allowed

        chosen = live.settings.tools
        self.tenant = tenant
        self.limits = tenant_limits(tenant.limits)
        self.offered = OfferedSkills(
            skills,
            include=None if chosen.include is None else frozenset(chosen.include),
            exclude=frozenset(chosen.exclude),
            admits=admits,
        )
        self.runs = SkillRuns(
            self.offered,
            live.sessions,
            policy=policy,
            secrets=live.secrets,
            demanded=demanded,
            ceilings=_ceilings(self.limits.sandbox),
        )
        self._live = live
        self._stack = ExitStack()
        self._making: ToolMaking | None = None
        self._toolboxes: dict[tuple[str, ...], Toolbox] = {}

    def toolbox(self, toolsets: tuple[str, ...] = ()) -> Toolbox:
        """Returns the tools of these toolsets, of those of the settings without any; raises SettingsError."""
        names = toolsets or self._live.settings.tools.toolsets
        if names not in self._toolboxes:
            while len(self._toolboxes) >= MAX_TOOLBOXES:
                del self._toolboxes[next(iter(self._toolboxes))]
            self._toolboxes[names] = self._made(names)
        return self._toolboxes[names]

    def close(self) -> None:
        """Removes what tools that were made at run time lie in."""
        self._stack.close()

    def _made(self, names: tuple[str, ...]) -> Toolbox:
        check_toolsets(names)
        live, making = self._live, self._maker() if MAKING in names else None
        # A caller builds the prompt, so that what is loaded can only be told in replies.
        options = toolset_options(live.settings, reply=True)
        parts = ToolsetParts(self.runs, options, live.artifacts, making)
        return toolbox_of(live, self.runs, make_toolsets(names, parts))

    def _maker(self) -> ToolMaking:
        if self._making is None:
            place = self._live.settings.data_dir / "defined"
            make_private(place)
            defined = self._stack.enter_context(defined_tools(None, temporary=place))
            self._making = ToolMaking(defined, self.offered, tenant=self.tenant.id)
        return self._making


def _ceilings(ceiling: SandboxCeiling) -> RunLimits:
    """Returns what no run of the tenant may have more of."""
    return RunLimits(
        wall_seconds=ceiling.wall_seconds,
        cpu_seconds=ceiling.cpu_seconds,
        stdout_bytes=ceiling.output_bytes,
        stderr_bytes=ceiling.output_bytes,
    )
