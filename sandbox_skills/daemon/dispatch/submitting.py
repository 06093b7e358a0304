"""How a run gets into the queue: one transaction, in which it is either accepted for good or leaves nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import bindparam, delete, func, select

from sandbox_skills.daemon.access.limits import tenant_limits
from sandbox_skills.daemon.dispatch.base import Accepted, QueueFull
from sandbox_skills.daemon.errors import IdempotencyError
from sandbox_skills.daemon.truth import audit, tenants
from sandbox_skills.daemon.truth.audit import Deed
from sandbox_skills.daemon.truth.ids import new_id
from sandbox_skills.daemon.truth.run import IdempotencyKey, NewRun, RunState
from sandbox_skills.daemon.truth.runs import begin, found
from sandbox_skills.daemon.truth.tables import IdempotencyRow, RunRow, TenantRow

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from sandbox_skills.daemon.dispatch.options import QueueOptions


def submit(session: Session, new: NewRun, options: QueueOptions, *, now: float) -> Accepted | QueueFull:
    """Queues a run; raises IdempotencyError, and TenantNotFoundError for no tenant."""
    key = new.idempotency
    if key is not None and (before := _replayed(session, new.tenant_id, key, now=now)):
        return before
    if full := _full(session, new.tenant_id, options):
        return full
    run = begin(session, new_id(), new, now=now)
    if key is not None:
        session.add(
            IdempotencyRow(
                tenant_id=new.tenant_id,
                key=key.key,
                body_digest=key.body_digest,
                run_id=run.id,
                expires_at=now + key.ttl_seconds,
            )
        )
    detail = {"kind": new.kind, "skill": new.skill.name, "digest": new.skill.digest}
    audit.append(session, Deed(new.actor, "run.submit", f"run:{run.id}", new.tenant_id, detail), at=now)
    return Accepted(run)


def _replayed(session: Session, tenant_id: str, key: IdempotencyKey, *, now: float) -> Accepted | None:
    kept = session.get(IdempotencyRow, (tenant_id, key.key))
    if kept is None:
        return None
    if kept.expires_at <= now:
        session.execute(
            delete(IdempotencyRow).where(IdempotencyRow.tenant_id == tenant_id, IdempotencyRow.key == key.key)
        )
        return None
    if kept.body_digest != key.body_digest:
        raise IdempotencyError(
            "this Idempotency-Key was used for another request", hint="a new request needs a new key"
        )
    return Accepted(found(session, kept.run_id), replayed=True)


def _full(session: Session, tenant_id: str, options: QueueOptions) -> QueueFull | None:
    standing = session.connection().execute(_STANDING, {"tenant": tenant_id}).first()
    if standing is None:
        raise tenants.missing(tenant_id)
    own, waiting_of_tenant, waiting = standing
    limits = tenant_limits(own, options.limits)
    if waiting_of_tenant >= limits.queue:
        return QueueFull("tenant", limits.queue, options.full_retry_seconds)
    if waiting >= options.max_queued:
        return QueueFull("server", options.max_queued, options.full_retry_seconds)
    return None


_WAITING = select(func.count()).select_from(RunRow).where(RunRow.state == RunState.QUEUED)
_STANDING = select(
    TenantRow.limits,
    _WAITING.where(RunRow.tenant_id == bindparam("tenant")).scalar_subquery(),
    _WAITING.scalar_subquery(),
).where(TenantRow.id == bindparam("tenant"))
"""A tenant's own limits, how many of its runs wait, and how many of all; built once, as it is asked with each run."""
