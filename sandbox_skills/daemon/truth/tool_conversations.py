"""Conversations that have a workspace by name alone: which process had it last, as its files end with that one."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from sandbox_skills.daemon.truth.changes import Change
from sandbox_skills.daemon.truth.ids import is_id
from sandbox_skills.daemon.truth.tables import ToolConversationRow

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from sandbox_skills.daemon.truth.database import Database


class ToolConversations:
    """The conversations of every tenant, as the process `node` takes them over."""

    def __init__(self, database: Database, node: str) -> None:
        self._database = database
        self._node = node

    def new_name(self) -> str:
        """Returns a name for a conversation that got none: it tells whose it is, so that no row has to."""
        return f"{self._node}.{secrets.token_hex(16)}"

    async def taken(self, name: str, conversation_id: str, *, tenant_id: str) -> bool:
        """Says that this process has the workspace from now on; returns whether another one had it before."""
        maker, dot, _ = name.partition(".")
        if dot and is_id(maker):
            return maker != self._node

        def take(session: Session) -> bool:
            row = session.get(ToolConversationRow, (tenant_id, conversation_id))
            before = row is not None and row.node != self._node
            if row is None:
                row = ToolConversationRow(tenant_id=tenant_id, id=conversation_id)
                session.add(row)
            row.node, row.used_at = self._node, self._database.clock()
            return before

        return await self._database.write(Change.TOOL_CONVERSATION, take)
