"""How much a tenant may ask for, in the headers that clients know."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox_skills.daemon.access.rates import Allowance
    from sandbox_skills.daemon.errors import RateLimitedError


def rate_headers(told: Allowance | RateLimitedError) -> dict[str, str]:
    """Returns the RateLimit headers: how many, how many are left, seconds until all are again. Pure."""
    return {
        "RateLimit-Limit": str(told.limit),
        "RateLimit-Remaining": str(told.remaining),
        "RateLimit-Reset": str(math.ceil(told.reset)),
    }
