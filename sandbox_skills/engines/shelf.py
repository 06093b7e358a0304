"""The boxes of one kind that wait in a pool, and the demand for them. Starts and ends none."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sandbox_skills.engines.demand import Demand

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AsyncExitStack

    from sandbox_skills.engines.base import Sandbox
    from sandbox_skills.spec import SandboxSpec


@dataclass(slots=True, eq=False)
class Ready:
    """A box that waits, and the stack that ends it. `born` and `seen` are of the monotonic clock."""

    sandbox: Sandbox
    stack: AsyncExitStack
    born: float
    seen: float

    def fit(self, now: float, max_age: float) -> bool:
        """Whether it lives, and is not too old to be handed out."""
        return self.sandbox.alive and now - self.born <= max_age


@dataclass(slots=True, eq=False)
class Shelf:
    """Boxes of one spec. They carry no tenant and no run in their labels: nobody knows these yet."""

    spec: SandboxSpec
    ttl_seconds: float
    demand: Demand
    ready: deque[Ready] = field(default_factory=deque[Ready])

    @classmethod
    def of(cls, spec: SandboxSpec, *, minimum: int, max_age_seconds: float) -> Shelf:
        """Returns an empty shelf whose boxes live as long as `spec` says, even when they have waited."""
        lasting = replace(spec, tenant="", run="", ttl_seconds=spec.ttl_seconds + max_age_seconds)
        return cls(lasting, spec.ttl_seconds, Demand(minimum))

    def holds(self, spec: SandboxSpec) -> bool:
        """Whether its boxes are of the kind that is asked for."""
        asked = (spec.limits, spec.needs, spec.network)
        return asked == (self.spec.limits, self.spec.needs, self.spec.network)

    def serves(self, spec: SandboxSpec) -> bool:
        """Whether one of its boxes is as good as a new one."""
        return self.holds(spec) and spec.ttl_seconds <= self.ttl_seconds

    def take_surplus(self, now: float, max_age: float) -> Iterator[Ready]:
        """Takes out and yields the boxes that nobody should be given, then those that are more than enough."""
        for box in [box for box in self.ready if not box.fit(now, max_age)]:
            self.ready.remove(box)
            yield box
        while len(self.ready) > self.demand.kept(now):
            yield self.ready.popleft()
