"""Which models a tenant may ask with the server's key, and how far one goes in a leg."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypeVar

from sandbox_skills.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandbox_skills.daemon.access.limits import TenantLimits
    from sandbox_skills.settings.model_section import ModelSettings

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True)
class AgentModels:
    """The server's settings of models, and the names, with `*`, that may be asked for beside theirs."""

    settings: ModelSettings
    names: tuple[str, ...] = ()

    def chosen(self, name: str, limits: TenantLimits) -> ModelSettings:
        """Returns the settings of a leg that is to ask this model, the settings' own for an empty name. Pure.

        Raises PolicyError for one that the tenant may not ask, SettingsError where none is named anywhere.
        """
        allowed = self.allowed(limits)
        if name and not any(fnmatchcase(name, one) for one in allowed):
            told = f"it may be {', '.join(allowed)}" if allowed else "leave it out"
            more = "an admin allows more by daemon.agent_models, or by the tenant's limits"
            raise PolicyError(f"you may not ask the model {name[:80]!r}", hint=f"{told}; {more}")
        ceiling, usual = limits.agents, self.settings
        chosen = usual.replaced(
            name=name or usual.name,
            max_steps=_lower(usual.max_steps, ceiling.steps),
            max_tokens=_lower(usual.max_tokens, ceiling.tokens),
            max_cost=_lower(usual.max_cost, ceiling.cost),
        )
        chosen.controller_options()
        return chosen

    def allowed(self, limits: TenantLimits) -> Sequence[str]:
        """Returns what a tenant may name: the settings' own models, and its own list or else the server's. Pure."""
        own = (self.settings.name, *self.settings.fallbacks)
        more = self.names if limits.agents.models is None else limits.agents.models
        return list(dict.fromkeys(one for one in (*own, *more) if one))


def _lower(usual: Number | None, ceiling: Number | None) -> Number | None:
    given = [one for one in (usual, ceiling) if one is not None]
    return min(given) if given else None
