"""What the queue is made with."""

from __future__ import annotations

from dataclasses import dataclass

from sandbox_skills.daemon.access.limits import DEFAULT_LIMITS, TenantLimits
from sandbox_skills.spec import MIB


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """`limits` are those of a tenant that has none of its own. Times are seconds."""

    limits: TenantLimits = DEFAULT_LIMITS
    max_queued: int = 10_000
    """Of all tenants: a day's worth of short runs for one machine, and a claim still takes milliseconds."""
    lease_seconds: float = 60.0
    """A node that says nothing for so long is taken for dead."""
    runs_per_session: int = 1
    max_event_bytes: int = 4 * MIB
    """Kept of each run's events: what a terminal scrolls back."""
    full_retry_seconds: float = 5.0
    """When to ask again where the queue is full: in that time some runs have ended, on any machine."""
