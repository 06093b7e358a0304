"""What alembic runs to do the steps; it is no module of ours to import."""

from __future__ import annotations

from alembic import context

from sandbox_skills.daemon.truth.tables import Table

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Table.metadata,
    render_as_batch=True,  # SQLite alters a table by copying it
)
context.run_migrations()
