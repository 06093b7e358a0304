"""How runs get to a node: what waits is read, `fairness` chooses, what it chose is marked; one transaction.

Its statements are prepared: each run is claimed, and while it is nobody else can write.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, exists, func, or_, select, update

from sandbox_skills.daemon.access.limits import tenant_limits
from sandbox_skills.daemon.dispatch.fairness import TenantQueue, Waiting, choose
from sandbox_skills.daemon.errors import TenantInvalidError
from sandbox_skills.daemon.truth.prepared import Prepared
from sandbox_skills.daemon.truth.run import RunState
from sandbox_skills.daemon.truth.runs import Holder, Standing, run_of, step
from sandbox_skills.daemon.truth.tables import NODE, RUN, SESSION, TENANT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sqlalchemy import Connection

    from sandbox_skills.daemon.dispatch.base import Node
    from sandbox_skills.daemon.dispatch.options import QueueOptions
    from sandbox_skills.daemon.truth.run import Run


@dataclass(frozen=True, slots=True)
class _Going:
    """How many runs go, by tenant and by session."""

    tenants: Counter[str]
    sessions: Counter[str]


def claim(
    connection: Connection, node: Node, options: QueueOptions, *, slots: int, now: float
) -> Sequence[Run]:
    """Marks up to `slots` runs as this node's, and returns them in the order in which they were chosen."""
    if slots <= 0:
        return ()
    standing = _STANDING.first(connection, {"node": node.id})
    if standing is None or standing.draining or not standing.waits:
        return ()
    going = _going(connection)
    queues = list(_queues(connection, node, options, going, slots=slots))
    chosen = choose(queues, slots=slots, busy_sessions=going.sessions, per_session=options.runs_per_session)
    if not chosen:
        return ()
    turns = {tenant_id: place for place, (tenant_id, _) in enumerate(chosen, (standing.turn or 0) + 1)}
    take_turns(connection, turns)
    started = (_start(connection, run_id, node, options, now=now) for _, run_id in chosen)
    return [run for run in started if run is not None]


def take_turns(connection: Connection, turns: Mapping[str, int]) -> None:
    """Says of tenants that they were served, each at its place: the highest was served last."""
    _TURN.run_all(connection, [{"tenant": tenant_id, "place": place} for tenant_id, place in turns.items()])


_IS_QUEUED = RUN.c.state == RunState.QUEUED

_STANDING = Prepared(
    select(
        select(NODE.c.draining).where(NODE.c.id == bindparam("node")).scalar_subquery().label("draining"),
        select(func.max(TENANT.c.turn)).scalar_subquery().label("turn"),
        exists().where(_IS_QUEUED).label("waits"),
    )
)
"""Whether the node drains, the last turn, and whether a run waits."""

_TURN = Prepared(update(TENANT).where(TENANT.c.id == bindparam("tenant")).values(turn=bindparam("place")))


def _start(
    connection: Connection, run_id: str, node: Node, options: QueueOptions, *, now: float
) -> Run | None:
    holder = Holder(node.id, now + options.lease_seconds)
    changes = {
        "state": RunState.RUNNING,
        "node": holder.node,
        "started_at": now,
        "lease_until": holder.lease_until,
    }
    events = [holder.began()]
    row = step(connection, run_id, Standing(RunState.QUEUED), changes, events=events, now=now, whole=True)
    return None if row is None else run_of(row)


def _going(connection: Connection) -> _Going:
    rows = _RUNNING.all(connection)
    sessions = (row.session_id for row in rows if row.session_id is not None)
    return _Going(Counter(row.tenant_id for row in rows), Counter(sessions))


_RUNNING = Prepared(select(RUN.c.tenant_id, RUN.c.session_id).where(RUN.c.state == RunState.RUNNING))


def _queues(
    connection: Connection, node: Node, options: QueueOptions, going: _Going, *, slots: int
) -> Iterator[TenantQueue]:
    """Yields what tenants have waiting, the one served longest ago first, until there is enough for every slot."""
    needs = _needs(connection, node)
    if not needs:
        return
    may_go = {"node": node.id, "per_session": options.runs_per_session, "slots": slots, **needs}
    found = 0
    for tenant in _WHO_WAITS.all(connection):
        running, concurrency = going.tenants[tenant.id], _concurrency(tenant.limits, options)
        if running >= concurrency:
            continue
        rows = _waiting(len(needs)).all(connection, {**may_go, "tenant": tenant.id})
        if waiting := [Waiting(*row) for row in rows]:
            yield TenantQueue(tenant.id, waiting, running, concurrency, tenant.turn)
            found += 1
        if found == slots:
            return


_WHO_WAITS = Prepared(
    select(TENANT.c.id, TENANT.c.limits, TENANT.c.turn)
    .where(TENANT.c.disabled_at.is_(None), exists().where(RUN.c.tenant_id == TENANT.c.id, _IS_QUEUED))
    .order_by(TENANT.c.turn, TENANT.c.id)
)


_BUSY = (
    select(RUN.c.session_id)
    .where(RUN.c.state == RunState.RUNNING, RUN.c.session_id.is_not(None))
    .group_by(RUN.c.session_id)
    .having(func.count() >= bindparam("per_session"))
)
"""Sessions in which as many runs go as they take at once."""


@cache
def _waiting(needs: int) -> Prepared:
    """Returns what asks for a tenant's oldest runs that may go, of so many kinds that the node can do.

    Their session is free and not elsewhere.
    """
    is_elsewhere = exists().where(SESSION.c.id == RUN.c.session_id, SESSION.c.node != bindparam("node"))
    return Prepared(
        select(RUN.c.id, RUN.c.session_id)
        .where(
            RUN.c.tenant_id == bindparam("tenant"),
            _IS_QUEUED,
            RUN.c.needs.in_([bindparam(_need(number)) for number in range(needs)]),
            or_(RUN.c.session_id.is_(None), RUN.c.session_id.not_in(_BUSY) & ~is_elsewhere),
        )
        .order_by(RUN.c.id)
        .limit(bindparam("slots"))
    )


def _needs(connection: Connection, node: Node) -> Mapping[str, str]:
    """Returns what waiting runs need that the node can do, each kind by the name that `_waiting` has for it."""
    kinds = [row.needs for row in _NEEDS.all(connection) if node.capabilities.issuperset(row.needs.split())]
    return {_need(number): kind for number, kind in enumerate(kinds)}


def _need(number: int) -> str:
    return f"need_{number}"


_NEEDS = Prepared(select(RUN.c.needs).where(_IS_QUEUED).distinct())


def _concurrency(own: Mapping[str, Any], options: QueueOptions) -> int:
    """Returns the tenant's own cap; limits that nobody can have hold nobody up."""
    try:
        return tenant_limits(own, options.limits).concurrency
    except TenantInvalidError:
        return options.limits.concurrency
