"""The table of conversations that clients of tools have named."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_SECONDS: sa.Double[float] = sa.Double()


def upgrade() -> None:
    """Makes the table."""
    op.create_table(
        "tool_conversation",
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("node", sa.String(), nullable=False),
        sa.Column("used_at", _SECONDS, nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.id"]),
        sa.PrimaryKeyConstraint("tenant_id", "id"),
    )
    op.create_index("ix_tool_conversation_used_at", "tool_conversation", ["used_at"])
