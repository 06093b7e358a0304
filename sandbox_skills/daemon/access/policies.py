"""What the operator's policy is for one tenant: the settings' own, and what an admin said of the tenant. Pure."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from sandbox_skills.daemon.errors import TenantInvalidError
from sandbox_skills.policy import Policy, TenantPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping


def tenant_policy(own: Mapping[str, Any]) -> TenantPolicy:
    """Returns the policy that an admin gave a tenant, from its JSON; raises TenantInvalidError with every fault."""
    try:
        return TenantPolicy.of(own)
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise TenantInvalidError(
            f"no tenant can have this policy: {faults}",
            hint=f"a policy has {', '.join(one.name for one in fields(TenantPolicy))}",
        ) from error


def policy_of(base: Policy, own: Mapping[str, Any], *, tenant_id: str, tenant_name: str) -> Policy:
    """Returns the policy by which one tenant is judged, under its id.

    Of the rules that the settings have under the tenant's name those count that an admin gave no other for. Raises
    TenantInvalidError.
    """
    named, given = base.tenants.get(tenant_name, TenantPolicy()), tenant_policy(own)
    both = TenantPolicy(
        default=given.default if given.default is not None else named.default,
        skills={**named.skills, **given.skills},
        tools={**named.tools, **given.tools},
    )
    return base.replaced(tenants={tenant_id: both})
