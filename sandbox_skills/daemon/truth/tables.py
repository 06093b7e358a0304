"""Every table. Times are UTC seconds since the epoch as floats, ids are ULIDs, so that their order is that of time.

Only what SQLite and PostgreSQL both have: no partial index, no array, no trigger. JSON columns hold values that
another module checked; here nothing looks into them.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlalchemy import JSON, ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

Json = dict[str, Any]
JsonRows = list[dict[str, Any]]


class Table(DeclarativeBase):
    """Base of all tables; its metadata is the whole schema."""

    type_annotation_map: ClassVar[Any] = {
        Json: JSON(none_as_null=True),
        JsonRows: JSON(),
        list[str]: JSON(),
    }


class TenantRow(Table):
    """A tenant. `turn` counts claims: the tenant that was served longest ago has the smallest one."""

    __tablename__ = "tenant"

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    limits: Mapped[Json]
    policy: Mapped[Json]
    turn: Mapped[int] = mapped_column(default=0)
    created_at: Mapped[float]
    disabled_at: Mapped[float | None]


class KeyRow(Table):
    """An API key: never the key, only its SHA-256, and the prefix that people tell it by."""

    __tablename__ = "api_key"

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenant.id"), index=True)
    prefix: Mapped[str] = mapped_column(unique=True)
    hash: Mapped[str]
    scopes: Mapped[list[str]]
    name: Mapped[str]
    created_at: Mapped[float]
    expires_at: Mapped[float | None]
    revoked_at: Mapped[float | None]
    last_used_at: Mapped[float | None]


class SessionRow(Table):
    """A session: `state` is active, idle (snapshotted, no box) or closed; `node` has its box.

    `end` is why it is closed: closed, expired, or lost with its box.
    """

    __tablename__ = "session"
    __table_args__ = (Index("ix_session_tenant_state", "tenant_id", "state", "id"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenant.id"))
    name: Mapped[str]
    state: Mapped[str]
    node: Mapped[str | None]
    snapshot: Mapped[str | None]
    end: Mapped[str | None]
    ttl_seconds: Mapped[float]
    created_at: Mapped[float]
    last_used_at: Mapped[float]
    expires_at: Mapped[float] = mapped_column(index=True)


class RunRow(Table):
    """A run: `state` is queued, running or finished. `attempt` counts claims, and fences whoever lost its lease.

    `needs` are names of capabilities, sorted and joined by spaces, so that databases can compare them.
    `event_first` and `event_last` are the numbers of the events that are kept, `event_bytes` their size.
    """

    __tablename__ = "run"
    __table_args__ = (
        Index("ix_run_state", "state", "tenant_id", "id", "session_id", "needs"),
        Index("ix_run_tenant", "tenant_id", "id"),
        Index("ix_run_finished", "state", "finished_at"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenant.id"))
    session_id: Mapped[str | None] = mapped_column(ForeignKey("session.id"), index=True)
    kind: Mapped[str]
    skill_name: Mapped[str]
    skill_version: Mapped[str]
    skill_digest: Mapped[str]
    skill_source: Mapped[str]
    state: Mapped[str]
    request: Mapped[Json]
    needs: Mapped[str]
    attempt: Mapped[int] = mapped_column(default=0)
    lease_until: Mapped[float | None]
    node: Mapped[str | None]
    outcome: Mapped[Json | None]
    limits_hit: Mapped[list[str]]
    result: Mapped[Json | None]
    created_at: Mapped[float]
    started_at: Mapped[float | None]
    finished_at: Mapped[float | None]
    cancel_requested_at: Mapped[float | None]
    event_first: Mapped[int] = mapped_column(default=1)
    event_last: Mapped[int] = mapped_column(default=0)
    event_bytes: Mapped[int] = mapped_column(default=0)


class EventRow(Table):
    """One thing that happened in a run; `seq` counts from 1 without a hole."""

    __tablename__ = "run_event"

    run_id: Mapped[str] = mapped_column(ForeignKey("run.id", ondelete="CASCADE"), primary_key=True)
    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    kind: Mapped[str]
    data: Mapped[Json]
    size: Mapped[int]
    created_at: Mapped[float]


class IdempotencyRow(Table):
    """Which run a client's Idempotency-Key stands for."""

    __tablename__ = "idempotency"

    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenant.id"), primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    body_digest: Mapped[str]
    run_id: Mapped[str]
    expires_at: Mapped[float] = mapped_column(index=True)


class AgentRow(Table):
    """A conversation of a model on the server: `conversation` is its state as JSON text, `legs` its runs in order.

    `input` is what was said and is not in the conversation yet, `words` what was said of calls that wait.
    """

    __tablename__ = "agent"
    __table_args__ = (Index("ix_agent_tenant", "tenant_id", "id"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenant.id"))
    request: Mapped[Json]
    input: Mapped[str | None]
    conversation: Mapped[str | None]
    words: Mapped[JsonRows]
    legs: Mapped[JsonRows]
    created_at: Mapped[float]
    updated_at: Mapped[float]
    cancelled_at: Mapped[float | None]


class SkillRow(Table):
    """A tenant's skill; `latest` is the highest version that was given, `next_version` the one to give next."""

    __tablename__ = "skill"
    __table_args__ = (UniqueConstraint("tenant_id", "name"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenant.id"))
    name: Mapped[str]
    description: Mapped[str]
    latest: Mapped[int | None]
    next_version: Mapped[int] = mapped_column(default=1)
    created_at: Mapped[float]
    updated_at: Mapped[float]


class SkillVersionRow(Table):
    """One version of a skill; a deleted one keeps its number, so that no number is given twice."""

    __tablename__ = "skill_version"
    __table_args__ = (UniqueConstraint("skill_id", "version"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    skill_id: Mapped[str] = mapped_column(ForeignKey("skill.id"))
    version: Mapped[int]
    digest: Mapped[str] = mapped_column(index=True)
    description: Mapped[str]
    size: Mapped[int]
    files: Mapped[int]
    diagnostics: Mapped[JsonRows]
    created_at: Mapped[float]
    deleted_at: Mapped[float | None]


class AuditRow(Table):
    """One deed. `hash` covers the row and `previous`, so that a row that was changed or taken out shows."""

    __tablename__ = "audit"

    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    at: Mapped[float]
    tenant_id: Mapped[str | None] = mapped_column(index=True)
    actor: Mapped[str]
    action: Mapped[str]
    subject: Mapped[str]
    detail: Mapped[Json]
    previous: Mapped[str]
    hash: Mapped[str]


class NodeRow(Table):
    """A process that works on runs, by its last word."""

    __tablename__ = "node"

    id: Mapped[str] = mapped_column(primary_key=True)
    started_at: Mapped[float]
    heartbeat_at: Mapped[float]
    draining: Mapped[bool]
    slots: Mapped[int]
    capabilities: Mapped[list[str]]


TENANT, KEY, SESSION, RUN, EVENT, IDEMPOTENCY, AUDIT, NODE = (
    Table.metadata.tables[row.__tablename__]
    for row in (TenantRow, KeyRow, SessionRow, RunRow, EventRow, IdempotencyRow, AuditRow, NodeRow)
)
"""The tables themselves, for statements of the way that every run goes: past the ORM they cost a fifth."""


class ToolConversationRow(Table):
    """A conversation whose workspace goes by a name of its client's, and the node that had it last."""

    __tablename__ = "tool_conversation"

    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenant.id"), primary_key=True)
    id: Mapped[str] = mapped_column(primary_key=True)
    node: Mapped[str]
    used_at: Mapped[float] = mapped_column(index=True)
