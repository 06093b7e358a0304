"""The interfaces that the daemon stands on: read this first.

`RunQueue`, `EventLog` and `NodeRegistry` are here, `ArtifactStore` is in `sandbox_skills.artifacts`. Every value can
be serialised, so that workers on other machines can stand behind them; today this process does, over its database.
`tests/contract` has one suite that every implementation passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from sandbox_skills.daemon.truth.run import Finished, NewEvent, NewRun, Run, RunEvent


@dataclass(frozen=True, slots=True)
class Accepted:
    """The run is in the queue and will not be lost. `replayed`: it was there already, by its Idempotency-Key."""

    run: Run
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class QueueFull:
    """Nothing was queued. `scope` is "tenant" (its own limit) or "server"; `limit` runs wait there already."""

    scope: str
    limit: int
    retry_after: float


@dataclass(frozen=True, slots=True)
class Node:
    """A process that works on runs: `slots` at once, those whose `needs` its capabilities cover."""

    id: str
    slots: int
    capabilities: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node by its last word."""

    node: Node
    started_at: float
    heartbeat_at: float
    draining: bool


class Lease(Protocol):
    """A run that is this node's to work on until `until`, unless it is renewed.

    Another attempt may hold the run by then: every method raises LeaseLostError where it does, or where the run is
    finished, and changes nothing.
    """

    @property
    def run(self) -> Run: ...

    @property
    def attempt(self) -> int: ...

    @property
    def until(self) -> float: ...

    async def renew(self) -> bool:
        """Holds the run for another term. Returns whether somebody asked for its cancel: then stop it, and complete."""
        ...

    async def append(self, events: Sequence[NewEvent]) -> int:
        """Adds events of this attempt to the run's log; returns the number of the last."""
        ...

    async def complete(self, finished: Finished, *, events: Sequence[NewEvent] = ()) -> Run:
        """Writes `events`, how the run ended, and its last event, all or nothing; once for each run."""
        ...

    async def release(self) -> None:
        """Gives the run back to the queue, in its old place; only for one of which nothing was begun."""
        ...


class RunQueue(Protocol):
    """Runs that wait, and who works on them. Tenants take turns; within a tenant the oldest is first.

    A run is never given to a second attempt once its command may have begun: a command is never retried.
    """

    async def submit(self, run: NewRun) -> Accepted | QueueFull:
        """Queues a run with its first event. Raises IdempotencyError for a key that stands for another request."""
        ...

    async def claim(self, node: Node, *, slots: int, wait_seconds: float = 0.0) -> Sequence[Lease]:
        """Returns leases of up to `slots` runs that this node may work on; none after `wait_seconds` without any.

        A tenant gets at most its own concurrency at a time, a session as many runs as it takes at once, and a session
        that another node holds stays there. Nothing is given to a node that drains. A cancel while waiting takes
        nothing.
        """
        ...

    async def cancel(self, run_id: str, *, tenant_id: str, actor: str = "") -> Run:
        """Asks for a run's end: a queued one is finished by this, a running one by its node at its next renewal.

        Returns the run as it is then; a finished one stays as it is. Raises RunNotFoundError.
        """
        ...

    async def cancels(
        self, node_id: str, *, known: frozenset[str] = frozenset(), wait_seconds: float = 0.0
    ) -> frozenset[str]:
        """Returns the ids of runs on that node whose cancel was asked for, but of none that is `known`.

        Waits until there is one; none after `wait_seconds`.
        """
        ...

    async def abandon(self, finished: Finished, *, nodes: frozenset[str] | None = None) -> Sequence[Run]:
        """Finishes every running run of those nodes, of every node for None: for nodes that are known to be dead."""
        ...

    async def expire(self, finished: Finished) -> Sequence[Run]:
        """Finishes every running run whose lease is over: its node has said nothing for so long."""
        ...

    async def depth(self) -> QueueDepth:
        """Returns how much waits and how much is going."""
        ...


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """How many runs wait and are going, in all and by tenant id."""

    queued: int
    running: int
    queued_of: dict[str, int]
    running_of: dict[str, int]


class EventLog(Protocol):
    """What happened in each run, numbered from 1 without a hole. What is kept of a run has a size; the oldest goes.

    Nodes write by their lease alone, so that an attempt that lost its run writes nothing.
    """

    async def read(self, run_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[RunEvent]:
        """Returns the events behind number `after`, oldest first.

        Raises EventsLostError where the next one is not kept any more, RunNotFoundError where there is no such run.
        """
        ...

    def follow(self, run_id: str, *, after: int = 0) -> AsyncGenerator[RunEvent]:
        """Yields the events behind `after` as they come, and ends behind `finished`. Raises as `read`.

        Whoever stops reading disturbs nobody.
        """
        ...


class NodeRegistry(Protocol):
    """The nodes that work, and which of them holds a session's box."""

    async def heartbeat(self, node: Node) -> None:
        """Says that the node is alive; the first time makes it known."""
        ...

    async def drain(self, node_id: str) -> None:
        """Gives the node nothing from now on; what it works on goes on."""
        ...

    async def leave(self, node_id: str) -> None:
        """Forgets the node, and that it holds sessions."""
        ...

    async def nodes(self, *, within_seconds: float | None = None) -> Sequence[NodeState]:
        """Returns the nodes that gave a sign of life within that time, or all."""
        ...

    async def place(self, session_id: str, node_id: str) -> str:
        """Returns which node holds the session: the one that does already, or `node_id` from now on.

        Raises SessionNotFoundError.
        """
        ...
