"""How a run gets into the queue: one transaction, in which it is either accepted for good or leaves nothing.

Where a node waits for runs and none waits for a node, the run is that node's at once: what `claiming` would do with it
is known beforehand, and costs as much again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, delete, func, insert, select

from sandbox_skills.daemon.access.limits import limits_of
from sandbox_skills.daemon.dispatch.base import Accepted, QueueFull
from sandbox_skills.daemon.dispatch.claiming import take_turns
from sandbox_skills.daemon.errors import IdempotencyError
from sandbox_skills.daemon.truth import audit, tenants
from sandbox_skills.daemon.truth.audit import Deed
from sandbox_skills.daemon.truth.ids import new_id
from sandbox_skills.daemon.truth.prepared import Prepared, as_text, named
from sandbox_skills.daemon.truth.run import IdempotencyKey, NewRun, RunState
from sandbox_skills.daemon.truth.runs import Holder, begin, found
from sandbox_skills.daemon.truth.tables import IDEMPOTENCY, NODE, RUN, SESSION, TENANT

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, Row, ScalarSelect

    from sandbox_skills.daemon.access.limits import TenantLimits
    from sandbox_skills.daemon.dispatch.base import Node
    from sandbox_skills.daemon.dispatch.options import QueueOptions
    from sandbox_skills.daemon.truth.run import Run


def submit(
    connection: Connection, new: NewRun, options: QueueOptions, *, node: Node | None = None, now: float
) -> Accepted | QueueFull:
    """Queues a run, or gives it to a node that waits for runs, where `claim` would do so at once; its state tells.

    Raises IdempotencyError, and TenantNotFoundError for no tenant.
    """
    key = new.idempotency
    if key is not None and (before := _replayed(connection, new.tenant_id, key, now=now)):
        return before
    standing = _standing(connection, new, node)
    limits = limits_of(standing.limits, options.limits)
    if full := _full(standing, limits, options):
        return full
    holder = None
    if node is not None and _goes_at_once(new, node, standing, limits, options):
        holder = Holder(node.id, now + options.lease_seconds)
        take_turns(connection, {new.tenant_id: standing.last_turn + 1})
    run = begin(connection, new_id(), new, now=now, holder=holder)
    if key is not None:
        _remember(connection, new.tenant_id, key, run, now=now)
    detail = {"kind": new.kind, "skill": new.skill.name, "digest": new.skill.digest}
    audit.append(connection, Deed(new.actor, "run.submit", f"run:{run.id}", new.tenant_id, detail), at=now)
    return Accepted(run)


def _remember(connection: Connection, tenant_id: str, key: IdempotencyKey, run: Run, *, now: float) -> None:
    kept = {
        "tenant_id": tenant_id,
        "key": key.key,
        "body_digest": key.body_digest,
        "run_id": run.id,
        "expires_at": now + key.ttl_seconds,
    }
    _REMEMBER.run(connection, kept)


def _replayed(connection: Connection, tenant_id: str, key: IdempotencyKey, *, now: float) -> Accepted | None:
    name = {"tenant": tenant_id, "name": key.key}
    kept = _REMEMBERED.first(connection, name)
    if kept is None:
        return None
    if kept.expires_at <= now:
        _FORGET.run(connection, name)
        return None
    if kept.body_digest != key.body_digest:
        raise IdempotencyError(
            "this Idempotency-Key was used for another request", hint="a new request needs a new key"
        )
    return Accepted(found(connection, kept.run_id), replayed=True)


_IS_NAMED = (IDEMPOTENCY.c.tenant_id == bindparam("tenant")) & (IDEMPOTENCY.c.key == bindparam("name"))
_REMEMBER = Prepared(insert(IDEMPOTENCY).values(named(column.name for column in IDEMPOTENCY.c)))
_REMEMBERED = Prepared(select(*IDEMPOTENCY.c).where(_IS_NAMED))
_FORGET = Prepared(delete(IDEMPOTENCY).where(_IS_NAMED))


def _full(standing: Row[Any], limits: TenantLimits, options: QueueOptions) -> QueueFull | None:
    if standing.waiting_of_tenant >= limits.queue:
        return QueueFull("tenant", limits.queue, options.full_retry_seconds)
    if standing.waiting >= options.max_queued:
        return QueueFull("server", options.max_queued, options.full_retry_seconds)
    return None


def _goes_at_once(
    new: NewRun, node: Node, standing: Row[Any], limits: TenantLimits, options: QueueOptions
) -> bool:
    """Tells whether `claim` would give the run to the node: there is no other, and nothing holds it up. Pure."""
    is_taking = not standing.draining and new.needs <= node.capabilities
    has_room = standing.disabled_at is None and standing.running_of_tenant < limits.concurrency
    is_free = standing.running_in_session < options.runs_per_session
    is_here = standing.session_node in {None, node.id}
    return not standing.waiting and is_taking and has_room and is_free and is_here


def _standing(connection: Connection, new: NewRun, node: Node | None) -> Row[Any]:
    asked = {"tenant": new.tenant_id, "session": new.session_id, "node": None if node is None else node.id}
    standing = _STANDING.first(connection, asked)
    if standing is None:
        raise tenants.missing(new.tenant_id)
    return standing


def _count(state: RunState, *where: ColumnElement[bool]) -> ScalarSelect[int]:
    return select(func.count()).select_from(RUN).where(RUN.c.state == state, *where).scalar_subquery()


_OF_TENANT = RUN.c.tenant_id == bindparam("tenant")
_IN_SESSION = RUN.c.session_id == bindparam("session")
_STANDING = Prepared(
    select(
        as_text(TENANT.c.limits),
        TENANT.c.disabled_at,
        select(func.max(TENANT.c.turn)).scalar_subquery().label("last_turn"),
        _count(RunState.QUEUED, _OF_TENANT).label("waiting_of_tenant"),
        _count(RunState.QUEUED).label("waiting"),
        _count(RunState.RUNNING, _OF_TENANT).label("running_of_tenant"),
        _count(RunState.RUNNING, _IN_SESSION).label("running_in_session"),
        select(SESSION.c.node)
        .where(SESSION.c.id == bindparam("session"))
        .scalar_subquery()
        .label("session_node"),
        select(NODE.c.draining).where(NODE.c.id == bindparam("node")).scalar_subquery().label("draining"),
    ).where(TENANT.c.id == bindparam("tenant"))
)
"""All that the place of a tenant's new run depends on; of the session and the node where there is one."""
