"""What a tenant may have: its own limits as JSON over the server's defaults. Pure."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sandbox_skills.daemon.errors import TenantInvalidError
from sandbox_skills.errors import PolicyError
from sandbox_skills.spec import MIB

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_COUNT = 1_000_000
MAX_BYTES = 2**50
"""The most that any limit may say: beyond that nobody means a number."""

REMEMBERED = 128
"""Limits that are not read again: each run asks for its tenant's a few times, and more tenants are seldom busy."""

_Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
_Positive = Annotated[int, Field(ge=1, le=MAX_COUNT)]
_Bytes = Annotated[int, Field(ge=0, le=MAX_BYTES)]


class SandboxCeiling(BaseModel):
    """The most that a run of the tenant may ask for; None leaves what the server's settings allow."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    wall_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    cpu_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    output_bytes: Annotated[int, Field(ge=1, le=MAX_BYTES)] | None = None


class AgentCeiling(BaseModel):
    """What models of the tenant may do at most in one leg; None leaves what the server's settings allow.

    `models` are names, with `*`, that may be asked beside the settings' own model; None: `daemon.agent_models`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    models: tuple[str, ...] | None = None
    steps: _Positive | None = None
    tokens: Annotated[int, Field(ge=1, le=2**50)] | None = None
    cost: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """US dollars, where the provider tells them."""


class TenantLimits(BaseModel, frozen=True):
    """Everything that is counted for a tenant. `engines` None allows what the server has."""

    model_config = ConfigDict(extra="forbid")

    concurrency: _Positive = 4
    """Runs at a time: two machines of usual size in boxes of one processor."""
    queue: _Count = 1_000
    """Runs that wait."""
    runs_per_minute: _Positive = 600
    """Ten a second, for ever; as many at once."""
    sessions: _Count = 50
    """Open at a time, idle ones included."""
    artifact_bytes: _Bytes = 2_048 * MIB
    artifact_count: _Count = 10_000
    skill_bytes: _Bytes = 1_024 * MIB
    """Contents of all versions of its skills."""
    sandbox: SandboxCeiling = SandboxCeiling()
    agents: AgentCeiling = AgentCeiling()
    engines: tuple[str, ...] | None = None


def check_engine(limits: TenantLimits, engine: str) -> None:
    """Raises PolicyError where a tenant may not have sandboxes of this engine."""
    if limits.engines is not None and engine not in limits.engines:
        raise PolicyError(
            f"you may not have sandboxes of the engine {engine}",
            hint="ask an admin for it, or another server",
        )


def tenant_limits(own: Mapping[str, Any], defaults: TenantLimits | None = None) -> TenantLimits:
    """Returns a tenant's limits: its own where it has some, else the defaults.

    Raises TenantInvalidError for what no tenant can have, with every fault.
    """
    return limits_of(json.dumps(dict(own)), defaults)


def limits_of(text: str, defaults: TenantLimits | None = None) -> TenantLimits:
    """Returns what `tenant_limits` does for limits that are still JSON."""
    # What all tenants have by default has no hash to be made each time.
    return _limits(text, None if defaults is DEFAULT_LIMITS else defaults)


DEFAULT_LIMITS = TenantLimits()
"""Of a tenant that has none of its own."""


@lru_cache(REMEMBERED)
def _limits(text: str, defaults: TenantLimits | None) -> TenantLimits:
    own, base = json.loads(text), (defaults or DEFAULT_LIMITS).model_dump()
    merged = {**base, **own}
    for part in ("sandbox", "agents"):
        if isinstance(given := own.get(part), dict):
            merged[part] = {**base[part], **given}
    try:
        return TenantLimits.model_validate(merged)
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise TenantInvalidError(
            f"no tenant can have these limits: {faults}",
            hint=f"limits are {', '.join(TenantLimits.model_fields)}",
        ) from error
