"""Whose run is next. Pure.

Tenants take turns, one run each; the tenant that was served longest ago begins. So a tenant with one run waits for at
most one run of each other tenant, however many those have queued. Within a tenant the oldest run is first, but one
whose session is busy waits without holding up the rest.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Waiting:
    """A run that waits."""

    run_id: str
    session_id: str | None = None


@dataclass(frozen=True, slots=True)
class TenantQueue:
    """What a tenant has waiting, oldest first. `running` of it go already, of `concurrency` allowed.

    `turn` is the number of the claim that served it last, 0 for never.
    """

    tenant_id: str
    waiting: Sequence[Waiting]
    running: int = 0
    concurrency: int = 1
    turn: int = 0


@dataclass(slots=True)
class _Turns:
    """The choice so far."""

    per_session: int
    sessions: Counter[str]
    running: Counter[str]
    chosen: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def take(self, tenant: TenantQueue, left: deque[Waiting]) -> bool:
        """Chooses the tenant's next run, if it may have one more and one of them can go."""
        if self.running[tenant.tenant_id] >= tenant.concurrency:
            return False
        for _ in range(len(left)):
            run = left.popleft()
            if run.session_id is None or self.sessions[run.session_id] < self.per_session:
                self.chosen.append((tenant.tenant_id, run.run_id))
                self.running[tenant.tenant_id] += 1
                if run.session_id is not None:
                    self.sessions[run.session_id] += 1
                return True
        return False


def choose(
    tenants: Sequence[TenantQueue],
    *,
    slots: int,
    busy_sessions: Mapping[str, int] | None = None,
    per_session: int = 1,
) -> list[tuple[str, str]]:
    """Returns up to `slots` pairs of tenant and run, in the order in which they are to be served.

    `busy_sessions` is how many runs go in a session already, of `per_session` that it takes at a time.
    """
    turns = _Turns(
        per_session, Counter(busy_sessions or {}), Counter({t.tenant_id: t.running for t in tenants})
    )
    ring = deque((tenant, deque(tenant.waiting)) for tenant in sorted(tenants, key=_served))
    while ring and len(turns.chosen) < slots:
        tenant, left = ring.popleft()
        if turns.take(tenant, left):
            ring.append((tenant, left))
    return turns.chosen


def _served(tenant: TenantQueue) -> tuple[int, str]:
    return tenant.turn, tenant.tenant_id
