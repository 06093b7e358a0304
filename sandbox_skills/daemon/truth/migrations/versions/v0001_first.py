"""The tables of the first daemon."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_SECONDS: sa.Double[float] = sa.Double()


def upgrade() -> None:
    """Makes every table, each after those that it refers to."""
    _audit()
    _node()
    _tenant()
    _api_key()
    _idempotency()
    _session()
    _skill()
    _run()
    _skill_version()
    _run_event()


def _audit() -> None:
    op.create_table(
        "audit",
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", _SECONDS, nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=True),
        sa.Column("actor", sa.String(), nullable=False),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.Column("previous", sa.String(), nullable=False),
        sa.Column("hash", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
    )
    op.create_index("ix_audit_tenant_id", "audit", ["tenant_id"], unique=False)


def _node() -> None:
    op.create_table(
        "node",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("started_at", _SECONDS, nullable=False),
        sa.Column("heartbeat_at", _SECONDS, nullable=False),
        sa.Column("draining", sa.Boolean(), nullable=False),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("capabilities", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )


def _tenant() -> None:
    op.create_table(
        "tenant",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("limits", sa.JSON(), nullable=False),
        sa.Column("policy", sa.JSON(), nullable=False),
        sa.Column("turn", sa.Integer(), nullable=False),
        sa.Column("created_at", _SECONDS, nullable=False),
        sa.Column("disabled_at", _SECONDS, nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
    )


def _api_key() -> None:
    op.create_table(
        "api_key",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("prefix", sa.String(), nullable=False),
        sa.Column("hash", sa.String(), nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("created_at", _SECONDS, nullable=False),
        sa.Column("expires_at", _SECONDS, nullable=True),
        sa.Column("revoked_at", _SECONDS, nullable=True),
        sa.Column("last_used_at", _SECONDS, nullable=True),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("prefix"),
    )
    op.create_index("ix_api_key_tenant_id", "api_key", ["tenant_id"], unique=False)


def _idempotency() -> None:
    op.create_table(
        "idempotency",
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("body_digest", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("expires_at", _SECONDS, nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.id"]),
        sa.PrimaryKeyConstraint("tenant_id", "key"),
    )
    op.create_index("ix_idempotency_expires_at", "idempotency", ["expires_at"], unique=False)


def _session() -> None:
    op.create_table(
        "session",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("node", sa.String(), nullable=True),
        sa.Column("snapshot", sa.String(), nullable=True),
        sa.Column("end", sa.String(), nullable=True),
        sa.Column("ttl_seconds", _SECONDS, nullable=False),
        sa.Column("created_at", _SECONDS, nullable=False),
        sa.Column("last_used_at", _SECONDS, nullable=False),
        sa.Column("expires_at", _SECONDS, nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_session_expires_at", "session", ["expires_at"], unique=False)
    op.create_index("ix_session_tenant_state", "session", ["tenant_id", "state", "id"], unique=False)


def _skill() -> None:
    op.create_table(
        "skill",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("description", sa.String(), nullable=False),
        sa.Column("latest", sa.Integer(), nullable=True),
        sa.Column("next_version", sa.Integer(), nullable=False),
        sa.Column("created_at", _SECONDS, nullable=False),
        sa.Column("updated_at", _SECONDS, nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("tenant_id", "name"),
    )


def _run() -> None:
    op.create_table(
        "run",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("session_id", sa.String(), nullable=True),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("skill_name", sa.String(), nullable=False),
        sa.Column("skill_version", sa.String(), nullable=False),
        sa.Column("skill_digest", sa.String(), nullable=False),
        sa.Column("skill_source", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("request", sa.JSON(), nullable=False),
        sa.Column("needs", sa.String(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("lease_until", _SECONDS, nullable=True),
        sa.Column("node", sa.String(), nullable=True),
        sa.Column("outcome", sa.JSON(), nullable=True),
        sa.Column("limits_hit", sa.JSON(), nullable=False),
        sa.Column("result", sa.JSON(), nullable=True),
        sa.Column("created_at", _SECONDS, nullable=False),
        sa.Column("started_at", _SECONDS, nullable=True),
        sa.Column("finished_at", _SECONDS, nullable=True),
        sa.Column("cancel_requested_at", _SECONDS, nullable=True),
        sa.Column("event_first", sa.Integer(), nullable=False),
        sa.Column("event_last", sa.Integer(), nullable=False),
        sa.Column("event_bytes", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["session.id"]),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_run_finished", "run", ["state", "finished_at"], unique=False)
    op.create_index("ix_run_session_id", "run", ["session_id"], unique=False)
    op.create_index("ix_run_state", "run", ["state", "tenant_id", "id", "session_id", "needs"], unique=False)
    op.create_index("ix_run_tenant", "run", ["tenant_id", "id"], unique=False)


def _skill_version() -> None:
    op.create_table(
        "skill_version",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("skill_id", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("description", sa.String(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("files", sa.Integer(), nullable=False),
        sa.Column("diagnostics", sa.JSON(), nullable=False),
        sa.Column("created_at", _SECONDS, nullable=False),
        sa.Column("deleted_at", _SECONDS, nullable=True),
        sa.ForeignKeyConstraint(["skill_id"], ["skill.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("skill_id", "version"),
    )
    op.create_index("ix_skill_version_digest", "skill_version", ["digest"], unique=False)


def _run_event() -> None:
    op.create_table(
        "run_event",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("created_at", _SECONDS, nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "seq"),
    )
