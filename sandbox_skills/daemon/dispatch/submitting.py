"""How a run gets into the queue: one transaction, in which it is either accepted for good or leaves nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import bindparam, delete, func, insert, select

from sandbox_skills.daemon.access.limits import tenant_limits
from sandbox_skills.daemon.dispatch.base import Accepted, QueueFull
from sandbox_skills.daemon.errors import IdempotencyError
from sandbox_skills.daemon.truth import audit, tenants
from sandbox_skills.daemon.truth.audit import Deed
from sandbox_skills.daemon.truth.ids import new_id
from sandbox_skills.daemon.truth.prepared import Prepared
from sandbox_skills.daemon.truth.run import IdempotencyKey, NewRun, RunState
from sandbox_skills.daemon.truth.runs import begin, found
from sandbox_skills.daemon.truth.tables import IDEMPOTENCY, RUN, TENANT

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from sandbox_skills.daemon.dispatch.options import QueueOptions
    from sandbox_skills.daemon.truth.run import Run


def submit(connection: Connection, new: NewRun, options: QueueOptions, *, now: float) -> Accepted | QueueFull:
    """Queues a run; raises IdempotencyError, and TenantNotFoundError for no tenant."""
    key = new.idempotency
    if key is not None and (before := _replayed(connection, new.tenant_id, key, now=now)):
        return before
    if full := _full(connection, new.tenant_id, options):
        return full
    run = begin(connection, new_id(), new, now=now)
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
_REMEMBER = Prepared(
    insert(IDEMPOTENCY).values({column.name: bindparam(column.name) for column in IDEMPOTENCY.c})
)
_REMEMBERED = Prepared(select(*IDEMPOTENCY.c).where(_IS_NAMED))
_FORGET = Prepared(delete(IDEMPOTENCY).where(_IS_NAMED))


def _full(connection: Connection, tenant_id: str, options: QueueOptions) -> QueueFull | None:
    standing = _STANDING.first(connection, {"tenant": tenant_id})
    if standing is None:
        raise tenants.missing(tenant_id)
    limits = tenant_limits(standing.limits, options.limits)
    if standing.waiting_of_tenant >= limits.queue:
        return QueueFull("tenant", limits.queue, options.full_retry_seconds)
    if standing.waiting >= options.max_queued:
        return QueueFull("server", options.max_queued, options.full_retry_seconds)
    return None


_WAITING = select(func.count()).select_from(RUN).where(RUN.c.state == RunState.QUEUED)
_STANDING = Prepared(
    select(
        TENANT.c.limits,
        _WAITING.where(RUN.c.tenant_id == bindparam("tenant")).scalar_subquery().label("waiting_of_tenant"),
        _WAITING.scalar_subquery().label("waiting"),
    ).where(TENANT.c.id == bindparam("tenant"))
)
"""A tenant's own limits, how many of its runs wait, and how many of all."""
