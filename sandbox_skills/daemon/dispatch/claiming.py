"""How runs get to a node: what waits is read, `fairness` chooses, what it chose is marked; one transaction.

Its statements are built once and go past the ORM: each run is claimed, and while it is nobody else can write.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, exists, func, or_, select, update

from sandbox_skills.daemon.access.limits import tenant_limits
from sandbox_skills.daemon.dispatch.fairness import TenantQueue, Waiting, choose
from sandbox_skills.daemon.errors import TenantInvalidError
from sandbox_skills.daemon.truth.run import STARTED, NewEvent, RunState
from sandbox_skills.daemon.truth.runs import Standing, run_of, step
from sandbox_skills.daemon.truth.tables import NODE, RUN, SESSION, TENANT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sqlalchemy import Connection
    from sqlalchemy.orm import Session

    from sandbox_skills.daemon.dispatch.base import Node
    from sandbox_skills.daemon.dispatch.options import QueueOptions
    from sandbox_skills.daemon.truth.run import Run


@dataclass(frozen=True, slots=True)
class _Going:
    """How many runs go, by tenant and by session."""

    tenants: Counter[str]
    sessions: Counter[str]


def claim(session: Session, node: Node, options: QueueOptions, *, slots: int, now: float) -> Sequence[Run]:
    """Marks up to `slots` runs as this node's, and returns them in the order in which they were chosen."""
    if slots <= 0:
        return ()
    connection = session.connection()
    draining, turn, waits = connection.execute(_STANDING, {"node": node.id}).one()
    if draining or not waits:
        return ()
    going = _going(connection)
    queues = list(_queues(connection, node, options, going, slots=slots))
    chosen = choose(queues, slots=slots, busy_sessions=going.sessions, per_session=options.runs_per_session)
    if not chosen:
        return ()
    turns = {tenant_id: place for place, (tenant_id, _) in enumerate(chosen, (turn or 0) + 1)}
    connection.execute(_TURN, [{"tenant": tenant_id, "place": turns[tenant_id]} for tenant_id in turns])
    started = (_start(session, run_id, node, options, now=now) for _, run_id in chosen)
    return [run for run in started if run is not None]


def something_waits(session: Session) -> bool:
    """Tells whether any run waits, for whomever."""
    return bool(session.connection().execute(_SOMETHING_WAITS).scalar())


_IS_QUEUED = RUN.c.state == RunState.QUEUED

_SOMETHING_WAITS = select(exists().where(_IS_QUEUED))

_STANDING = select(
    select(NODE.c.draining).where(NODE.c.id == bindparam("node")).scalar_subquery(),
    select(func.max(TENANT.c.turn)).scalar_subquery(),
    exists().where(_IS_QUEUED),
)
"""Whether the node drains, the last turn, and whether a run waits."""

_TURN = update(TENANT).where(TENANT.c.id == bindparam("tenant")).values(turn=bindparam("place"))


def _start(session: Session, run_id: str, node: Node, options: QueueOptions, *, now: float) -> Run | None:
    changes = {
        "state": RunState.RUNNING,
        "node": node.id,
        "started_at": now,
        "lease_until": now + options.lease_seconds,
    }
    events = [NewEvent(STARTED, {"node": node.id})]
    row = step(session, run_id, Standing(RunState.QUEUED), changes, events=events, now=now, whole=True)
    return None if row is None else run_of(row)


def _going(connection: Connection) -> _Going:
    rows = connection.execute(_RUNNING).all()
    return _Going(
        Counter(tenant for tenant, _ in rows), Counter(held for _, held in rows if held is not None)
    )


_RUNNING = select(RUN.c.tenant_id, RUN.c.session_id).where(RUN.c.state == RunState.RUNNING)


def _queues(
    connection: Connection, node: Node, options: QueueOptions, going: _Going, *, slots: int
) -> Iterator[TenantQueue]:
    """Yields what tenants have waiting, the one served longest ago first, until there is enough for every slot."""
    can = _can_go(connection, node, options, going)
    found = 0
    for tenant in connection.execute(_WHO_WAITS).all():
        running, concurrency = going.tenants[tenant.id], _concurrency(tenant.limits, options)
        if running >= concurrency:
            continue
        rows = connection.execute(_WAITING, {**can, "tenant": tenant.id, "slots": slots})
        if waiting := [Waiting(*row) for row in rows]:
            yield TenantQueue(tenant.id, waiting, running, concurrency, tenant.turn)
            found += 1
        if found == slots:
            return


_WHO_WAITS = (
    select(TENANT.c.id, TENANT.c.limits, TENANT.c.turn)
    .where(TENANT.c.disabled_at.is_(None), exists().where(RUN.c.tenant_id == TENANT.c.id, _IS_QUEUED))
    .order_by(TENANT.c.turn, TENANT.c.id)
)

_WAITING = (
    select(RUN.c.id, RUN.c.session_id)
    .where(
        RUN.c.tenant_id == bindparam("tenant"),
        _IS_QUEUED,
        RUN.c.needs.in_(bindparam("needs", expanding=True)),
        or_(
            RUN.c.session_id.is_(None),
            RUN.c.session_id.not_in(bindparam("busy", expanding=True))
            & ~exists().where(SESSION.c.id == RUN.c.session_id, SESSION.c.node != bindparam("node")),
        ),
    )
    .order_by(RUN.c.id)
    .limit(bindparam("slots"))
)
"""A tenant's oldest runs that may go: the node can do them, and their session is free and not elsewhere."""


def _can_go(connection: Connection, node: Node, options: QueueOptions, going: _Going) -> Mapping[str, object]:
    """Returns what a waiting run must fulfil, as _WAITING takes it."""
    asked = connection.execute(_NEEDS).scalars().all()
    return {
        "node": node.id,
        "needs": [one for one in asked if node.capabilities.issuperset(one.split())],
        "busy": [one for one, count in going.sessions.items() if count >= options.runs_per_session],
    }


_NEEDS = select(RUN.c.needs).where(_IS_QUEUED).distinct()


def _concurrency(own: Mapping[str, Any], options: QueueOptions) -> int:
    """Returns the tenant's own cap; limits that nobody can have hold nobody up."""
    try:
        return tenant_limits(own, options.limits).concurrency
    except TenantInvalidError:
        return options.limits.concurrency
