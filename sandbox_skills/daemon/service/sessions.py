"""Sessions as their tenant sees them: a workspace that lasts, whose box comes and goes.

The row says whose it is and for how long; the box is kept by the library's `SessionManager`, which lets one that
nobody uses expire and leaves its files. Those are moved where the next process finds them, and the next use wakes it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from anyio import to_thread

from sandbox_skills.daemon.access.limits import tenant_limits
from sandbox_skills.daemon.service.while_used import WhileUsed
from sandbox_skills.daemon.truth.ids import new_id
from sandbox_skills.daemon.truth.sessions import SessionEnd, SessionState
from sandbox_skills.directories import make_private
from sandbox_skills.errors import (
    OutputError,
    QuotaError,
    SandboxSkillsError,
    SessionClosedError,
    SessionLostError,
)
from sandbox_skills.workspace.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandbox_skills.daemon.truth.sessions import Session, Sessions
    from sandbox_skills.daemon.truth.tenants import Tenants
    from sandbox_skills.workspace.live_session import LiveSession
    from sandbox_skills.workspace.sessions import SessionManager

logger = logging.getLogger(__name__)

USE_SECONDS = 1.0
USE_SHARE = 0.01
"""How exact the time of a session is that is in use: to write it down with each use costs as much as its run. Of a
short life it is a hundredth."""

PARK_SECONDS = 20.0
"""How long the end of the server waits for the files of its sessions: sixteen full ones take half of that."""


@dataclass(frozen=True, slots=True)
class _Use:
    """A session that this process has in use: its row when that was said, and the moment by the monotonic clock."""

    row: Session
    said: float

    def is_fresh(self, now: float) -> bool:
        """Whether that was said a moment ago."""
        return now - self.said < min(USE_SECONDS, USE_SHARE * self.row.ttl_seconds)


class SessionService:
    """The sessions of all tenants whose boxes this process has. `folder` is where files of idle ones lie."""

    def __init__(
        self, kept: Sessions, tenants: Tenants, manager: SessionManager, *, node: str, folder: Path
    ) -> None:
        self._kept = kept
        self._tenants = tenants
        self._manager = manager
        self._node = node
        self._folder = folder
        self._mine: dict[str, _Use] = {}
        self._parked: dict[str, Snapshot] = {}
        self._locks = WhileUsed(asyncio.Lock)

    # What a tenant does

    async def create(self, *, name: str, ttl_seconds: float, tenant: str, actor: str) -> Session:
        """Makes a session, which gets its box with the first use; raises QuotaError for one too many."""
        limits = tenant_limits((await self._tenants.get(tenant)).limits)
        return await self._kept.create(
            tenant_id=tenant, name=name, ttl_seconds=ttl_seconds, max_open=limits.sessions, actor=actor
        )

    async def get(self, session_id: str, *, tenant: str) -> Session:
        """Returns a session, a closed one too; raises SessionNotFoundError."""
        return self._as_it_is(await self._kept.get(session_id, tenant_id=tenant))

    async def list(
        self, *, state: SessionState | None, before: str | None, limit: int, tenant: str
    ) -> Sequence[Session]:
        """Returns sessions, newest first, behind the id `before`."""
        rows = await self._kept.list(tenant_id=tenant, state=state, before=before, limit=limit)
        return [self._as_it_is(row) for row in rows]

    async def extend(self, session_id: str, seconds: float, *, tenant: str) -> Session:
        """Lets a session live for so long from now; raises SessionNotFoundError, SessionClosedError."""
        return self._as_it_is(await self._kept.extend(session_id, tenant_id=tenant, seconds=seconds))

    async def check(self, session_id: str, *, tenant: str) -> None:
        """Raises SessionNotFoundError, and SessionClosedError for one that takes no run any more."""
        use = self._mine.get(session_id)
        if use is not None and use.row.tenant_id == tenant:
            return
        row = await self._kept.get(session_id, tenant_id=tenant)
        if row.state is SessionState.CLOSED:
            raise SessionClosedError(f"session {session_id} is closed: {row.end}", hint="make a new one")

    async def opened(self, session_id: str, *, tenant: str) -> LiveSession:
        """Returns a session with its box, woken where it was idle; its time begins anew.

        Raises SessionNotFoundError, SessionClosedError, SessionLostError where its files are gone, and then closes
        it; QuotaError where too many boxes of the tenant are in use; EngineError.
        """
        async with self._locks.of(session_id):
            row = await self._used(session_id, tenant)
            try:
                return await self._woken(row, tenant)
            except SessionLostError:
                await self._end(session_id, tenant=tenant, actor="daemon", end=SessionEnd.LOST)
                raise
            except SandboxSkillsError:
                await self._unwoken(row)
                raise

    async def snapshot(self, session_id: str, *, tenant: str) -> Snapshot:
        """Keeps the files of a session as they are now, from which it goes on should its box be lost."""
        session = await self.opened(session_id, tenant=tenant)
        taken = await session.snapshot(await self._new_path())
        await self._keep(session_id, taken, tenant=tenant)
        await self._kept.snapshotted(session_id, tenant_id=tenant, snapshot=str(taken.path))
        return taken

    async def close(self, session_id: str, *, tenant: str, actor: str) -> Session:
        """Ends a session and what runs in it; one that is closed stays so. Raises SessionNotFoundError."""
        await self._kept.get(session_id, tenant_id=tenant)
        async with self._locks.of(session_id):
            return await self._end(session_id, tenant=tenant, actor=actor, end=SessionEnd.CLOSED)

    # What the daemon does

    async def tidy(self) -> None:
        """Closes sessions whose time is over, and keeps the files of those that have become idle."""
        for row in await self._kept.expired():
            async with self._locks.of(row.id):
                await self._end(row.id, tenant=row.tenant_id, actor="daemon", end=SessionEnd.EXPIRED)
        for session_id, use in list(self._mine.items()):
            async with self._locks.of(session_id):
                if not self._has_box(session_id, use.row.tenant_id):
                    await self._settle(session_id, use.row.tenant_id)

    async def park(self) -> None:
        """Keeps the files of every session, for the next process; takes PARK_SECONDS at most."""
        try:
            async with asyncio.timeout(PARK_SECONDS):
                for session_id, use in list(self._mine.items()):
                    await self._park(session_id, use.row.tenant_id)
        except TimeoutError:
            logger.warning("the files of some sessions could not be kept in time")

    # How

    async def _used(self, session_id: str, tenant: str) -> Session:
        """Says that a session is in use, unless that was said a moment ago."""
        now, use = time.monotonic(), self._mine.get(session_id)
        if use is not None and use.row.tenant_id == tenant and use.is_fresh(now):
            return use.row
        row = await self._kept.used(session_id, tenant_id=tenant, node=self._node)
        self._mine[session_id] = _Use(row, now)
        return row

    async def _unwoken(self, row: Session) -> None:
        """Says that a session which could not be woken is idle as before: nothing of it is lost."""
        left = self._manager.snapshot_of(row.id, tenant=row.tenant_id)
        if left is None and not self._has_box(row.id, row.tenant_id):
            self._mine.pop(row.id, None)
            await self._kept.idled(row.id, tenant_id=row.tenant_id, snapshot=row.snapshot)

    def _has_box(self, session_id: str, tenant: str) -> bool:
        return self._manager.lives(session_id, tenant=tenant)

    def _as_it_is(self, row: Session) -> Session:
        """Returns a session as idle where its box has gone and nobody has written that down yet."""
        if row.state is SessionState.ACTIVE and not self._has_box(row.id, row.tenant_id):
            return replace(row, state=SessionState.IDLE)
        return row

    async def _woken(self, row: Session, tenant: str) -> LiveSession:
        if self._has_box(row.id, tenant):
            return await self._manager.open(row.id, tenant=tenant)
        left = self._manager.snapshot_of(row.id, tenant=tenant) or self._snapshot_of(row)
        while True:
            try:
                return await self._manager.open(row.id, tenant=tenant, restore=left, anew=left is None)
            except QuotaError:
                if not await self._manager.make_room(tenant=tenant):
                    raise

    def _snapshot_of(self, row: Session) -> Snapshot | None:
        """Returns what is kept of a session; what the host remembered of it is lost with an earlier process."""
        if row.snapshot is None:
            return None
        known = self._parked.get(row.id)
        if known is not None and str(known.path) == row.snapshot:
            return known
        return Snapshot(Path(row.snapshot), row.tenant_id, files=0, bytes=0)

    async def _settle(self, session_id: str, tenant: str) -> None:
        """Moves what an idle session has left to where the next process finds it."""
        left = self._manager.snapshot_of(session_id, tenant=tenant)
        del self._mine[session_id]
        if left is None:
            await self._lost(session_id, tenant)
            return
        path = await self._new_path()
        await to_thread.run_sync(left.path.rename, path)
        await self._manager.close(session_id, tenant=tenant)
        await self._idled(session_id, replace(left, path=path), tenant=tenant)

    async def _lost(self, session_id: str, tenant: str) -> None:
        """Says that a session has lost its box: it goes on from a snapshot that was asked for, or is over."""
        row = await self._kept.get(session_id, tenant_id=tenant)
        if row.snapshot is None:
            await self._end(session_id, tenant=tenant, actor="daemon", end=SessionEnd.LOST)
            return
        await self._manager.close(session_id, tenant=tenant)
        await self._kept.idled(session_id, tenant_id=tenant, snapshot=row.snapshot)

    async def _park(self, session_id: str, tenant: str) -> None:
        async with self._locks.of(session_id):
            if not self._has_box(session_id, tenant):
                await self._settle(session_id, tenant)
                return
            try:
                session = await self._manager.open(session_id, tenant=tenant)
                taken = await session.snapshot(await self._new_path())
                await self._idled(session_id, taken, tenant=tenant)
                await self._manager.close(session_id, tenant=tenant)
                del self._mine[session_id]
            except SandboxSkillsError as error:
                logger.warning("the files of session %s could not be kept: %s", session_id, error.message)

    async def _idled(self, session_id: str, left: Snapshot, *, tenant: str) -> None:
        await self._keep(session_id, left, tenant=tenant)
        await self._kept.idled(session_id, tenant_id=tenant, snapshot=str(left.path))

    async def _keep(self, session_id: str, taken: Snapshot, *, tenant: str) -> None:
        """Remembers a snapshot in place of the one before, whose file goes once nothing names it."""
        row = await self._kept.get(session_id, tenant_id=tenant)
        self._parked[session_id] = taken
        if row.snapshot is not None and row.snapshot != str(taken.path):
            await _removed(row.snapshot)

    async def _end(self, session_id: str, *, tenant: str, actor: str, end: SessionEnd) -> Session:
        await self._manager.close(session_id, tenant=tenant)
        self._mine.pop(session_id, None)
        self._parked.pop(session_id, None)
        row = await self._kept.close(session_id, tenant_id=tenant, actor=actor, end=end)
        if row.snapshot is not None:
            await _removed(row.snapshot)
        return row

    async def _new_path(self) -> Path:
        try:
            await to_thread.run_sync(make_private, self._folder)
        except OSError as error:
            raise OutputError(f"files of sessions cannot be kept: {error.strerror}") from error
        return self._folder / f"{new_id()}.tar"


async def _removed(path: str) -> None:
    await to_thread.run_sync(lambda: Path(path).unlink(missing_ok=True))
