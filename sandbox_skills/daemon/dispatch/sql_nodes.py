"""The registry of nodes over the database of this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete, select, update

from sandbox_skills.daemon.dispatch.base import Node, NodeState
from sandbox_skills.daemon.errors import SessionNotFoundError
from sandbox_skills.daemon.truth.changes import Change
from sandbox_skills.daemon.truth.tables import NodeRow, SessionRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.orm import Session

    from sandbox_skills.daemon.truth.database import Database


class SqlNodeRegistry:
    """A NodeRegistry."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def heartbeat(self, node: Node) -> None:
        now = self._database.clock()

        def say(session: Session) -> None:
            row = session.get(NodeRow, node.id)
            if row is None:
                row = NodeRow(id=node.id, started_at=now, draining=False)
                session.add(row)
            row.heartbeat_at, row.slots, row.capabilities = now, node.slots, sorted(node.capabilities)

        await self._database.write(Change.NODE_HEARTBEAT, say)

    async def drain(self, node_id: str) -> None:
        query = update(NodeRow).where(NodeRow.id == node_id).values(draining=True)
        await self._database.write(Change.NODE_DRAIN, lambda session: session.execute(query))

    async def leave(self, node_id: str) -> None:
        def forget(session: Session) -> None:
            session.execute(update(SessionRow).where(SessionRow.node == node_id).values(node=None))
            session.execute(delete(NodeRow).where(NodeRow.id == node_id))

        await self._database.write(Change.NODE_LEAVE, forget)

    async def nodes(self, *, within_seconds: float | None = None) -> Sequence[NodeState]:
        query = select(NodeRow).order_by(NodeRow.id)
        if within_seconds is not None:
            query = query.where(NodeRow.heartbeat_at >= self._database.clock() - within_seconds)
        return await self._database.read(lambda session: [_state(row) for row in session.scalars(query)])

    async def place(self, session_id: str, node_id: str) -> str:
        def hold(session: Session) -> str:
            row = session.get(SessionRow, session_id, with_for_update=True)
            if row is None:
                raise SessionNotFoundError(f"there is no session {session_id[:80]!r}")
            holder = row.node or node_id
            row.node = holder
            return holder

        return await self._database.write(Change.SESSION_PLACE, hold)


def _state(row: NodeRow) -> NodeState:
    return NodeState(
        Node(row.id, row.slots, frozenset(row.capabilities)), row.started_at, row.heartbeat_at, row.draining
    )
