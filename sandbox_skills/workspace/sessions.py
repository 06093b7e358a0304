"""Sessions by name: one workspace over many runs, for as long as it is used and no longer.

Each session is kept by a task of its own that opens the box, waits until its time is over and ends it: whatever
happens to those who use it, leaving that task leaves nothing behind.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Self

from sandbox_skills.engines.cancellation import finish
from sandbox_skills.errors import QuotaError, SessionClosedError
from sandbox_skills.workspace.choices import SessionPolicy
from sandbox_skills.workspace.kept_session import KeptSession
from sandbox_skills.workspace.live_session import LiveSession
from sandbox_skills.workspace.snapshot_folder import SnapshotFolder

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from sandbox_skills.workspace.kept_session import SessionInfo
    from sandbox_skills.workspace.manager import WorkspaceManager
    from sandbox_skills.workspace.snapshot import Snapshot

Key = tuple[str, str]
"""Tenant and session id: tenants may choose the same id and never meet."""

MAX_REMEMBERED = 1_000
"""Ended sessions whose end is told to those who come back: a few hundred bytes each."""


class SessionManager:
    """Keeps sessions while it is entered; leaving it ends every one and waits until each is gone.

    With a `snapshots` folder, a session that expires leaves its files there, for as long as it is remembered and a
    tenant's later ones leave room.
    """

    def __init__(
        self, manager: WorkspaceManager, *, policy: SessionPolicy | None = None, snapshots: Path | None = None
    ) -> None:
        self._manager = manager
        self._policy = policy or SessionPolicy()
        self._snapshots = SnapshotFolder(snapshots) if snapshots is not None else None
        self._kept: dict[Key, KeptSession] = {}
        self._ended: OrderedDict[Key, KeptSession] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    async def __aenter__(self) -> Self:
        if self._snapshots is not None:
            self._snapshots.sweep()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await finish(self.aclose())

    async def open(
        self, session_id: str, *, tenant: str, restore: Snapshot | None = None, anew: bool = False
    ) -> LiveSession:
        """Returns the session of that name, made where there is none; callers at the same time get the same one.

        Where one of that name has ended by itself, that is said by SessionExpiredError or SessionLostError, so that
        nobody takes an empty workspace for theirs: `restore` goes on from a snapshot, `anew` with nothing. Raises
        SessionClosedError for `restore` where the session lives, QuotaError for one session too many,
        SnapshotError, EngineError. A cancel ends a session that nobody else waits for.
        """
        key = (tenant, session_id)
        kept = self._kept.get(key)
        if kept is None or kept.over:
            kept = self._make(key, kept, restore=restore, anew=anew)
        elif restore is not None:
            raise SessionClosedError(
                f"session {session_id!r} is open: a snapshot is restored into a new one",
                hint="close it first",
            )
        session = await kept.joined()
        return LiveSession(session, kept, self._manager.services.audit, self._policy.snapshot)

    def snapshot_of(self, session_id: str, *, tenant: str) -> Snapshot | None:
        """Returns what a session of that name left when it expired; None where nothing is left of one."""
        ended = self._ended.get((tenant, session_id))
        return None if ended is None else ended.snapshot

    def adopt(self, session_id: str, snapshot: Snapshot, *, tenant: str) -> None:
        """Takes over what a session of that name left with an earlier program: its file is this one's from now on.

        Whoever opens the session is told as of one that expired. Raises SessionClosedError where one of it lives.
        """
        key = (tenant, session_id)
        if key in self._kept:
            raise SessionClosedError(f"session {session_id!r} is open", hint="close it first")
        self._forget(key)
        ended = KeptSession(self._manager, session_id, tenant=tenant, policy=self._policy)
        ended.left_before(snapshot)
        self._ended[key] = ended

    async def close(self, session_id: str, *, tenant: str) -> None:
        """Ends a session and what runs in it; one that is not there is fine. Its name is free again."""
        key = (tenant, session_id)
        self._forget(key)
        if kept := self._kept.get(key):
            await kept.close()

    def sessions(self, *, tenant: str) -> tuple[SessionInfo, ...]:
        """Returns the sessions of a tenant that live."""
        kept = [one for (owner, _), one in self._kept.items() if owner == tenant and not one.over]
        return tuple(one.info() for one in kept)

    def lives(self, session_id: str, *, tenant: str) -> bool:
        """Whether a tenant's session of that name lives."""
        kept = self._kept.get((tenant, session_id))
        return kept is not None and not kept.over

    async def make_room(self, *, tenant: str) -> bool:
        """Lets the session of a tenant expire that has been at rest longest, and keeps its files.

        False where each is in use, or where there is no place for files.
        """
        resting = [one for (owner, _), one in self._kept.items() if owner == tenant and one.at_rest]
        if not resting or self._snapshots is None:
            return False
        await max(resting, key=lambda one: one.info().idle).retire()
        return True

    async def aclose(self) -> None:
        """Ends every session; none can be opened any more."""
        self._closed = True
        for kept in list(self._kept.values()):
            kept.end("closed")
        while self._tasks:
            await asyncio.wait(self._tasks)
        self._ended.clear()
        if self._snapshots is not None:
            self._snapshots.close()

    def _make(
        self, key: Key, before: KeptSession | None, *, restore: Snapshot | None, anew: bool
    ) -> KeptSession:
        if self._closed:
            raise SessionClosedError("no session can be opened any more")
        if before is not None and before.given_up:
            before = before.before
        ended = self._ended.get(key) or before
        if ended is not None and restore is None and not anew:
            raise ended.error()
        tenant, session_id = key
        if len(self.sessions(tenant=tenant)) >= self._policy.max_per_tenant:
            raise QuotaError(
                f"{self._policy.max_per_tenant} sessions are open",
                hint="close one, or wait until one expires",
            )
        kept = KeptSession(
            self._manager,
            session_id,
            tenant=tenant,
            policy=self._policy,
            snapshots=self._snapshots,
            restore=restore,
            before=self._ended.pop(key, before),
        )
        self._kept[key] = kept
        task = asyncio.create_task(kept.keep(), name=f"session {session_id}")
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._gone(key, kept, done))
        return kept

    def _gone(self, key: Key, kept: KeptSession, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        try:
            self._put_away(key, kept)
        finally:
            kept.abandon()  # not sooner: whoever waits for the end finds the name free, or what was left

    def _put_away(self, key: Key, kept: KeptSession) -> None:
        if self._kept.get(key) is not kept:
            kept.discard()
            return
        del self._kept[key]
        # One that could not be opened leaves things as they were.
        ended = kept if kept.remembered else kept.before
        if ended is not None and not self._closed:
            self._ended[key] = ended
            self._bound_snapshots(tenant=key[0])
            while len(self._ended) > MAX_REMEMBERED:
                self._forget(next(iter(self._ended)))

    def _bound_snapshots(self, *, tenant: str) -> None:
        """Removes the oldest snapshots that a tenant's sessions have left, as far as all would be too much."""
        left = self._policy.kept_bytes
        for (owner, _), ended in reversed(self._ended.items()):
            if owner == tenant and ended.snapshot is not None:
                left -= ended.snapshot.size
                if left < 0:
                    ended.discard()

    def _forget(self, key: Key) -> None:
        if ended := self._ended.pop(key, None):
            ended.discard()
