"""How runs get to a node: what waits is read, `fairness` chooses, what it chose is marked; one transaction."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, exists, func, or_, select, update

from sandbox_skills.daemon.access.limits import tenant_limits
from sandbox_skills.daemon.dispatch.fairness import TenantQueue, Waiting, choose
from sandbox_skills.daemon.errors import TenantInvalidError
from sandbox_skills.daemon.truth.run import STARTED, NewEvent, RunState
from sandbox_skills.daemon.truth.runs import run_of, step
from sandbox_skills.daemon.truth.tables import NodeRow, RunRow, SessionRow, TenantRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import ColumnElement
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
    draining, turn, waits = session.connection().execute(_STANDING, {"node": node.id}).one()
    if draining or not waits:
        return ()
    going = _going(session)
    queues = list(_queues(session, node, options, going, slots=slots))
    chosen = choose(queues, slots=slots, busy_sessions=going.sessions, per_session=options.runs_per_session)
    if not chosen:
        return ()
    for place, (tenant_id, _) in enumerate(chosen, (turn or 0) + 1):
        session.execute(update(TenantRow).where(TenantRow.id == tenant_id).values(turn=place))
    started = (_start(session, run_id, node, options, now=now) for _, run_id in chosen)
    return [run for run in started if run is not None]


_STANDING = select(
    select(NodeRow.draining).where(NodeRow.id == bindparam("node")).scalar_subquery(),
    select(func.max(TenantRow.turn)).scalar_subquery(),
    exists().where(RunRow.state == RunState.QUEUED),
)
"""Whether the node drains, the last turn, and whether a run waits; built once, as every look begins with it."""


def _start(session: Session, run_id: str, node: Node, options: QueueOptions, *, now: float) -> Run | None:
    row = step(
        session,
        run_id,
        RunRow.state == RunState.QUEUED,
        events=[NewEvent(STARTED, {"node": node.id})],
        now=now,
        state=RunState.RUNNING,
        attempt=RunRow.attempt + 1,
        node=node.id,
        started_at=now,
        lease_until=now + options.lease_seconds,
    )
    return None if row is None else run_of(row)


def _going(session: Session) -> _Going:
    query = select(RunRow.tenant_id, RunRow.session_id).where(RunRow.state == RunState.RUNNING)
    rows = session.execute(query).all()
    return _Going(
        Counter(tenant for tenant, _ in rows), Counter(held for _, held in rows if held is not None)
    )


def _queues(
    session: Session, node: Node, options: QueueOptions, going: _Going, *, slots: int
) -> Iterator[TenantQueue]:
    """Yields what tenants have waiting, the one served longest ago first, until there is enough for every slot."""
    can = _can_go(session, node, options, going)
    has_some = exists().where(RunRow.tenant_id == TenantRow.id, RunRow.state == RunState.QUEUED)
    found = 0
    query = select(TenantRow).where(TenantRow.disabled_at.is_(None), has_some)
    for tenant in session.scalars(query.order_by(TenantRow.turn, TenantRow.id)):
        running, concurrency = going.tenants[tenant.id], _concurrency(tenant, options)
        if running >= concurrency:
            continue
        rows = session.execute(
            select(RunRow.id, RunRow.session_id)
            .where(RunRow.tenant_id == tenant.id, RunRow.state == RunState.QUEUED, *can)
            .order_by(RunRow.id)
            .limit(slots)
        )
        if waiting := [Waiting(*row) for row in rows]:
            yield TenantQueue(tenant.id, waiting, running, concurrency, tenant.turn)
            found += 1
        if found == slots:
            return


def _can_go(
    session: Session, node: Node, options: QueueOptions, going: _Going
) -> Sequence[ColumnElement[bool]]:
    """Returns what a waiting run must fulfil: the node can do it, and its session is free and not elsewhere."""
    asked = session.scalars(select(RunRow.needs).where(RunRow.state == RunState.QUEUED).distinct())
    needs = [one for one in asked if node.capabilities.issuperset(one.split())]
    busy = [one for one, count in going.sessions.items() if count >= options.runs_per_session]
    elsewhere = exists().where(SessionRow.id == RunRow.session_id, SessionRow.node != node.id)
    return (
        RunRow.needs.in_(needs),
        or_(RunRow.session_id.is_(None), RunRow.session_id.not_in(busy) & ~elsewhere),
    )


def _concurrency(tenant: TenantRow, options: QueueOptions) -> int:
    """Returns the tenant's own cap; limits that nobody can have hold nobody up."""
    try:
        return tenant_limits(tenant.limits, options.limits).concurrency
    except TenantInvalidError:
        return options.limits.concurrency
