"""Workspaces that last: sessions as the database has them, and the boxes that they have while they are used."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox_skills.workspace.live_session import LiveSession


class Workspaces:
    """Not yet."""

    async def check(self, session_id: str, *, tenant: str) -> None:
        """Raises SessionNotFoundError."""
        raise NotImplementedError

    async def opened(self, session_id: str, *, tenant: str) -> LiveSession:
        """Opens it."""
        raise NotImplementedError
