"""Tells nodes of this process that there may be work for them, or gives it to them at once."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from sandbox_skills.daemon.dispatch.base import Lease, Node


@dataclass(slots=True)
class Offer:
    """A node that waits for runs, for up to `slots`; who queues one may claim for it in the same transaction.

    `woken` is set when the wait is over. `taken` will be the leases, where somebody does so.
    """

    node: Node
    slots: int
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    taken: asyncio.Future[Sequence[Lease]] | None = None

    async def leases(self) -> Sequence[Lease]:
        """Returns what was claimed for the node, once that is sure; none where nobody took the offer."""
        return () if self.taken is None else await asyncio.shield(self.taken)


@dataclass(slots=True)
class _Listener:
    sign: asyncio.Event
    capabilities: frozenset[str] = frozenset()
    offer: Offer | None = None


class WorkBell:
    """Rung when a run may have become claimable. Each node that listens has a sign, which stays up until it looks.

    So a node that found too little looks again when something has changed for it, and no other does. Of one loop.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, _Listener] = {}

    def sign(self, node: Node) -> asyncio.Event:
        """Returns the sign of a node, up at first; whoever looks takes it down before."""
        known = self._nodes.get(node.id)
        if known is None:
            known = self._nodes[node.id] = _Listener(asyncio.Event())
            known.sign.set()
        known.capabilities = node.capabilities
        return known.sign

    def ring(self, needs: frozenset[str] = frozenset()) -> None:
        """Puts up the sign of every node that can do what the run needs for which something has changed."""
        for known in self._nodes.values():
            if needs <= known.capabilities:
                known.sign.set()
                if known.offer is not None:
                    known.offer.woken.set()

    @contextmanager
    def offering(self, offer: Offer) -> Generator[None]:
        """Lets others take an offer while the block lasts, of a node that has a sign."""
        known = self._nodes[offer.node.id]
        known.offer = offer
        if known.sign.is_set():
            offer.woken.set()
        try:
            yield
        finally:
            if known.offer is offer:
                known.offer = None

    def take(self, needs: frozenset[str]) -> Offer | None:
        """Returns the offer of a node that can do so much and is still asleep: nobody else gets it, so give it leases.

        None where there is none.
        """
        for known in self._nodes.values():
            offer = known.offer
            if offer is not None and needs <= known.capabilities and not offer.woken.is_set():
                known.offer, offer.taken = None, asyncio.get_running_loop().create_future()
                return offer
        return None

    def give(self, offer: Offer, leases: Sequence[Lease]) -> None:
        """Gives leases for an offer that was taken, or none; with as many as it has slots more may wait."""
        if offer.taken is not None:
            offer.taken.set_result(leases)
        if not leases or len(leases) == offer.slots:
            self._nodes[offer.node.id].sign.set()
        offer.woken.set()
