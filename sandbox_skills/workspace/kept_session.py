"""One session as its keeper sees it: opening, open while it is used, then ended for one of four reasons."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sandbox_skills.errors import (
    SandboxSkillsError,
    SessionBusyError,
    SessionClosedError,
    SessionExpiredError,
    SessionLostError,
)
from sandbox_skills.workspace.run_slots import RunSlots

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from sandbox_skills.workspace.choices import SessionPolicy
    from sandbox_skills.workspace.manager import WorkspaceManager
    from sandbox_skills.workspace.session import Session
    from sandbox_skills.workspace.snapshot import Snapshot
    from sandbox_skills.workspace.snapshot_folder import SnapshotFolder

logger = logging.getLogger(__name__)

End = Literal["closed", "expired", "lost", "failed"]
State = Literal["opening", "open", "closed", "expired", "lost", "failed"]


REST_SECONDS = 1.0
"""Without a run, after which a session may give its place to another: a call that has opened one begins sooner."""


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session that lives. `generation` counts from 0 how often its name began anew; times are seconds."""

    id: str
    generation: int
    age: float
    idle: float
    busy: bool


class KeptSession:
    """The life of one session. `keep` is run once, by a task of its own; all else is called by others meanwhile."""

    def __init__(
        self,
        manager: WorkspaceManager,
        session_id: str,
        *,
        tenant: str,
        policy: SessionPolicy,
        snapshots: SnapshotFolder | None = None,
        restore: Snapshot | None = None,
        before: KeptSession | None = None,
    ) -> None:
        self.id = session_id
        self.tenant = tenant
        self.generation: int = 0 if before is None else before.generation + 1
        self.before = before
        self.snapshot: Snapshot | None = None
        self._manager = manager
        self._policy = policy
        self._snapshots = snapshots
        self._restore = restore
        self._state: State = "opening"
        self._opened: asyncio.Future[Session] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._gone = asyncio.Event()
        self._lock = asyncio.Lock()
        self._slots = RunSlots(policy.concurrent_runs)
        self._joining = 0
        self._users = 0
        self._running = 0
        self._talking = 0
        self._born = self._used = time.monotonic()
        self._lasted = ""
        self._retired = False

    @property
    def over(self) -> bool:
        """Whether it has ended or is about to."""
        return self._state not in {"opening", "open"}

    @property
    def remembered(self) -> bool:
        """Whether it ended by itself, so that whoever comes back must be told."""
        return self._state in {"expired", "lost"}

    @property
    def given_up(self) -> bool:
        """Whether it ended before it was open, so that it leaves things as they were."""
        return self.over and (not self._opened.done() or self._opened.exception() is not None)

    def info(self) -> SessionInfo:
        """Returns what is told of a session that lives."""
        now = time.monotonic()
        busy = self._users > 0
        idle = 0.0 if busy else now - self._used
        return SessionInfo(self.id, self.generation, age=now - self._born, idle=idle, busy=busy)

    def error(self) -> SandboxSkillsError:
        """Returns why it cannot be used any more."""
        match self._state:
            case "expired":
                kept = self.snapshot is not None
                return SessionExpiredError(
                    f"session {self.id!r} expired after {self._lasted}; its workspace is gone",
                    hint="open it with its snapshot, or anew" if kept else "open it anew",
                    resumable=kept,
                )
            case "lost":
                return SessionLostError(
                    f"the sandbox of session {self.id!r} is gone, and its files with it",
                    hint="open it with a snapshot that was taken before, or anew",
                )
            case _:
                return SessionClosedError(f"session {self.id!r} was closed")

    def left_before(self, snapshot: Snapshot) -> None:
        """Makes it one that ended with an earlier program and left its files; one that was never opened."""
        self._state = "expired"
        self._lasted = "the program that had it"
        self.snapshot = snapshot

    # The keeper

    async def keep(self) -> None:
        """Opens the workspace, waits until the session is over, and ends it. Raises nothing; `abandon` is to follow."""
        self._task = asyncio.current_task()
        try:
            if not self.over:
                await self._keep()
        except asyncio.CancelledError:
            pass  # by `end`: whoever waits is told below
        except Exception as error:  # noqa: BLE001  # whoever waits for the session hears of it
            self._fail(error)

    async def _keep(self) -> None:
        async with self._manager.session(tenant=self.tenant, name=self.id) as session:
            if self._restore is not None:
                await session.restore(self._restore, limits=self._policy.snapshot)
            self._born = self._used = time.monotonic()
            self._state = "open"
            self._opened.set_result(session)
            if self.before is not None:
                self.before.discard()
                self.before = None
            while self._state == "open":
                if (left := self._left()) <= 0:
                    await self._expire(session)
                    return
                self._changed.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await self._changed.wait()

    @property
    def at_rest(self) -> bool:
        """Whether nobody uses it or is about to."""
        info = self.info()
        return self._state == "open" and not info.busy and not self._joining and info.idle >= REST_SECONDS

    async def retire(self) -> None:
        """Lets it expire now, for another one to have its place, and waits until nothing of it is left."""
        self._retired = True
        self._changed.set()
        await self._gone.wait()

    def _left(self) -> float:
        """Returns the seconds until it may be over; of one that is used, until that is to be asked again."""
        if self._retired and not self._users:
            return 0.0
        now = time.monotonic()
        age = self._born + self._policy.max_age_seconds - now
        if self._users:
            return min(age, max(self._policy.idle_seconds, REST_SECONDS))
        return min(age, self._used + self._policy.idle_seconds - now)

    async def _expire(self, session: Session) -> None:
        """Takes no more runs, lets those under way end, and keeps the files where there is a place for them.

        Interactive programs are not waited for: they may be waiting themselves.
        """
        self._state = "expired"
        aged = time.monotonic() - self._born >= self._policy.max_age_seconds
        if self._retired:
            self._lasted = "another one needed its place"
        elif aged:
            self._lasted = f"{self._policy.max_age_seconds:g} s"
        else:
            self._lasted = f"{self._policy.idle_seconds:g} s without a run"
        while self._running:
            self._changed.clear()
            await self._changed.wait()
        await session.programs.aclose()
        if self._snapshots is None or not session.sandbox.alive:
            return
        try:
            path = self._snapshots.new_path()
            self.snapshot = await session.snapshot(path, limits=self._policy.snapshot)
        except SandboxSkillsError as error:
            logger.warning("session %r leaves no snapshot: %s", self.id, error.message)

    def _fail(self, error: Exception) -> None:
        if self._opened.done():
            logger.warning("session %r did not end as it should: %s", self.id, error)
            return
        self._state = "failed"
        self._opened.set_exception(error)
        self._opened.exception()  # marks it as seen: perhaps nobody waits any more

    def abandon(self) -> None:
        """Says that the keeper is gone, even one that never began, and that others know: who waits may go on."""
        if not self._opened.done():
            self._fail(SessionClosedError(f"session {self.id!r} was closed"))
        self._gone.set()

    # Its users

    async def joined(self) -> Session:
        """Returns the session once it is open; raises why it could not be. The last to give up waiting ends it."""
        self._joining += 1
        try:
            session = await asyncio.shield(self._opened)
        except asyncio.CancelledError:
            if self._joining == 1 and not self._opened.done():
                self.end("closed")
            raise
        else:
            self._used = time.monotonic()  # whoever opens it is about to use it
            return session
        finally:
            self._joining -= 1

    @asynccontextmanager
    async def turn(self, session: Session) -> AsyncGenerator[None]:
        """Gives the session to one run at a time, or to so many as run in parallel; raises why it cannot be used."""
        self._check_free(session)
        async with self._alone(session, interactive=False):
            self._running += 1
            try:
                yield
            finally:
                self._running -= 1

    @asynccontextmanager
    async def conversation(self, session: Session) -> AsyncGenerator[None]:
        """Gives the session to an interactive program as `turn` does, but nothing waits behind it."""
        self._check_free(session)
        self._talking += 1
        try:
            async with self._alone(session, interactive=True):
                yield
        finally:
            self._talking -= 1

    @asynccontextmanager
    async def _alone(self, session: Session, *, interactive: bool) -> AsyncGenerator[None]:
        with self.held(session):
            if self._policy.concurrency == "parallel":
                await self._slots.free(self.id)
                self.check(session)
                with self._slots.taken(interactive=interactive):
                    yield
                return
            async with self._lock:
                self.check(session)
                yield

    def _check_free(self, session: Session) -> None:
        self.check(session)
        if self._policy.concurrency == "parallel":
            return
        if self._talking:
            raise SessionBusyError(
                f"an interactive program runs in session {self.id!r}",
                hint="let it end, or kill it; the setting session.concurrency allows both at once",
            )
        if self._policy.concurrency == "refuse" and self._lock.locked():
            raise SessionBusyError(
                f"a run is under way in session {self.id!r}", hint="wait until it has ended"
            )

    @contextmanager
    def held(self, session: Session) -> Generator[None]:
        """Keeps the session from being idle while the block lasts; raises why it cannot be used."""
        self.check(session)
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            self._used = time.monotonic()
            if self._retired or self._state != "open" or self._policy.idle_seconds < REST_SECONDS:
                self._changed.set()  # else the keeper looks in time by itself: to wake it takes a twentieth of a run

    def check(self, session: Session) -> None:
        """Raises why the session cannot be used, if it cannot."""
        if not self.over and not session.sandbox.alive:
            self.end("lost")
        if self.over:
            raise self.error()

    def end(self, reason: End) -> None:
        """Ends the session now, a run that is under way too; what has ended for another reason keeps that one."""
        if self._state == "open":
            self._state = reason
            self._changed.set()
        elif self._task is not None and self._state in {"opening", "expired"}:
            if self._state == "opening":
                self._state = reason  # whoever opens it from now on gets another one
            self._task.cancel()
        elif self._state == "opening":
            self._state = reason

    async def close(self) -> None:
        """Ends the session and waits until nothing of it is left."""
        self.end("closed")
        await self._gone.wait()

    def discard(self) -> None:
        """Removes the snapshot that an expired session has left."""
        if self.snapshot is not None:
            self.snapshot.path.unlink(missing_ok=True)
            self.snapshot = None
