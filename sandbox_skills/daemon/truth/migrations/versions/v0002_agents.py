"""The table of models' conversations."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_SECONDS: sa.Double[float] = sa.Double()


def upgrade() -> None:
    """Makes the table."""
    op.create_table(
        "agent",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("request", sa.JSON(), nullable=False),
        sa.Column("input", sa.String(), nullable=True),
        sa.Column("conversation", sa.String(), nullable=True),
        sa.Column("words", sa.JSON(), nullable=False),
        sa.Column("legs", sa.JSON(), nullable=False),
        sa.Column("created_at", _SECONDS, nullable=False),
        sa.Column("updated_at", _SECONDS, nullable=False),
        sa.Column("cancelled_at", _SECONDS, nullable=True),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_agent_tenant", "agent", ["tenant_id", "id"])
