"""Sessions as rows: who has them, whether they have a box, and when their time is over.

A session is `active` while a node has a box for it, `idle` while its files are in a snapshot, then `closed`. Its time
begins anew with each use.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, func, select, update

from sandbox_skills.daemon.errors import SessionNotFoundError
from sandbox_skills.daemon.truth import audit
from sandbox_skills.daemon.truth.audit import Deed
from sandbox_skills.daemon.truth.changes import Change
from sandbox_skills.daemon.truth.ids import new_id
from sandbox_skills.daemon.truth.prepared import Prepared
from sandbox_skills.daemon.truth.tables import SESSION, SessionRow
from sandbox_skills.errors import QuotaError, SessionClosedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import ColumnElement, Connection, Row
    from sqlalchemy.orm import Session as Transaction

    from sandbox_skills.daemon.truth.database import Database


class SessionState(StrEnum):
    """Where a session stands."""

    ACTIVE = "active"
    IDLE = "idle"
    CLOSED = "closed"


class SessionEnd(StrEnum):
    """Why a session is closed: as asked, for its age, or because its box went away and nothing was kept of it."""

    CLOSED = "closed"
    EXPIRED = "expired"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Session:
    """A session as the database has it; times are UTC seconds since the epoch."""

    id: str
    tenant_id: str
    name: str
    state: SessionState
    node: str | None
    snapshot: str | None
    end: SessionEnd | None
    ttl_seconds: float
    created_at: float
    last_used_at: float
    expires_at: float

    def as_dict(self) -> dict[str, Any]:
        """Returns the one spelling of a session, for JSON."""
        return asdict(self)


class Sessions:
    """The sessions of every tenant. One of another tenant is not there: SessionNotFoundError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(
        self, *, tenant_id: str, name: str = "", ttl_seconds: float, max_open: int, actor: str
    ) -> Session:
        """Makes an idle session without files; raises QuotaError where `max_open` are open already."""
        now = self._database.clock()
        row = SessionRow(
            id=new_id(),
            tenant_id=tenant_id,
            name=name,
            state=SessionState.IDLE,
            ttl_seconds=ttl_seconds,
            created_at=now,
            last_used_at=now,
            expires_at=now + ttl_seconds,
        )

        def add(transaction: Transaction) -> Session:
            query = select(func.count()).where(SessionRow.tenant_id == tenant_id, _IS_OPEN)
            if (transaction.scalar(query) or 0) >= max_open:
                raise QuotaError(
                    f"{max_open} sessions are open already", hint="close some, or let them expire"
                )
            transaction.add(row)
            audit.append(
                transaction.connection(),
                Deed(actor, "session.create", f"session:{row.id}", tenant_id),
                at=now,
            )
            return _session(row)

        return await self._database.write(Change.SESSION_CREATE, add)

    async def get(self, session_id: str, *, tenant_id: str) -> Session:
        """Returns one session, a closed one too."""
        return _owned(self._database.look(_BY_ID, session=session_id), session_id, tenant_id)

    async def list(
        self,
        *,
        tenant_id: str | None,
        state: SessionState | None = None,
        before: str | None = None,
        limit: int = 100,
    ) -> Sequence[Session]:
        """Returns sessions, newest first, behind the id `before`; of every tenant for None."""
        query = select(SessionRow).order_by(SessionRow.id.desc()).limit(limit)
        if tenant_id is not None:
            query = query.where(SessionRow.tenant_id == tenant_id)
        if state is not None:
            query = query.where(SessionRow.state == state)
        if before is not None:
            query = query.where(SessionRow.id < before)
        return await self._database.read(lambda one: [_session(row) for row in one.scalars(query)])

    async def used(self, session_id: str, *, tenant_id: str, node: str) -> Session:
        """Says that a node has the session's box and that it is in use: its time begins anew.

        Raises SessionClosedError.
        """
        now = self._database.clock()

        def work(connection: Connection) -> Session:
            row = _BY_ID.first(connection, {"session": session_id})
            before = _owned(row, session_id, tenant_id)
            _check_open(before)
            until = max(before.expires_at, now + before.ttl_seconds)
            values = {"session": session_id, "holder": node, "now": now, "until": until}
            _USE.run(connection, values)
            return replace(before, state=SessionState.ACTIVE, node=node, last_used_at=now, expires_at=until)

        return await self._database.transact(Change.SESSION_UPDATE, work)

    async def idled(self, session_id: str, *, tenant_id: str, snapshot: str | None) -> Session:
        """Says that the session has no box any more, and where its files are. Raises SessionClosedError."""

        def change(row: SessionRow) -> None:
            row.state, row.node, row.snapshot = SessionState.IDLE, None, snapshot

        return await self._change(session_id, tenant_id, change)

    async def snapshotted(self, session_id: str, *, tenant_id: str, snapshot: str) -> Session:
        """Says where the files of a session are kept, which goes on. Raises SessionClosedError."""

        def change(row: SessionRow) -> None:
            row.snapshot = snapshot

        return await self._change(session_id, tenant_id, change)

    async def extend(self, session_id: str, *, tenant_id: str, seconds: float) -> Session:
        """Lets the session live for `seconds` from now, never less than it would. Raises SessionClosedError."""
        until = self._database.clock() + seconds

        def change(row: SessionRow) -> None:
            row.expires_at = max(row.expires_at, until)

        return await self._change(session_id, tenant_id, change)

    async def _change(self, session_id: str, tenant_id: str, change: Callable[[SessionRow], None]) -> Session:
        def work(transaction: Transaction) -> Session:
            row = _found(transaction, session_id, tenant_id)
            _check_open(_session(row))
            change(row)
            return _session(row)

        return await self._database.write(Change.SESSION_UPDATE, work)

    async def close(
        self, session_id: str, *, tenant_id: str, actor: str, end: SessionEnd = SessionEnd.CLOSED
    ) -> Session:
        """Ends a session; returns it as it is then, with the snapshot that nobody needs any more.

        One that is closed stays so. What runs in it is the caller's to end.
        """
        now = self._database.clock()

        def work(transaction: Transaction) -> Session:
            row = _found(transaction, session_id, tenant_id)
            if row.state != SessionState.CLOSED:
                _close(row, end)
                deed = Deed(actor, "session.close", f"session:{row.id}", tenant_id, {"end": end})
                audit.append(transaction.connection(), deed, at=now)
            return _session(row)

        return await self._database.write(Change.SESSION_CLOSE, work)

    async def expired(self) -> Sequence[Session]:
        """Returns the open sessions whose time is over."""
        query = select(SessionRow).where(_IS_OPEN, SessionRow.expires_at <= self._database.clock())
        return await self._database.read(lambda one: [_session(row) for row in one.scalars(query)])

    async def lose(self) -> Sequence[Session]:
        """Says that no box of any session is left: for the start of a daemon, before it makes any.

        Those with a snapshot are idle and go on from that, the others are closed as lost. Returns both.
        """

        def work(transaction: Transaction) -> list[Session]:
            rows = transaction.scalars(
                select(SessionRow).where(SessionRow.state == SessionState.ACTIVE)
            ).all()
            for row in rows:
                if row.snapshot is None:
                    _close(row, SessionEnd.LOST)
                else:
                    row.state, row.node = SessionState.IDLE, None
            return [_session(row) for row in rows]

        return await self._database.write(Change.SESSION_LOSE, work)


_IS_OPEN: ColumnElement[bool] = SessionRow.state != SessionState.CLOSED


def _close(row: SessionRow, end: SessionEnd) -> None:
    row.state, row.node, row.end = SessionState.CLOSED, None, end


_BY_ID = Prepared(select(*SESSION.c).where(SESSION.c.id == bindparam("session")).with_for_update())

_USE = Prepared(
    update(SESSION)
    .where(SESSION.c.id == bindparam("session"))
    .values(
        state=SessionState.ACTIVE,
        node=bindparam("holder"),
        last_used_at=bindparam("now"),
        expires_at=bindparam("until"),
    )
)


def _owned(row: Row[Any] | None, session_id: str, tenant_id: str) -> Session:
    if row is None or row.tenant_id != tenant_id:
        raise _missing(session_id)
    return _session(row)


def _check_open(session: Session) -> None:
    if session.state is SessionState.CLOSED:
        raise SessionClosedError(f"session {session.id} is closed: {session.end}", hint="make a new one")


def _missing(session_id: str) -> SessionNotFoundError:
    return SessionNotFoundError(f"there is no session {session_id[:80]!r}")


def _found(transaction: Transaction, session_id: str, tenant_id: str) -> SessionRow:
    row = transaction.get(SessionRow, session_id, with_for_update=True)
    if row is None or row.tenant_id != tenant_id:
        raise _missing(session_id)
    return row


def _session(row: SessionRow | Row[Any]) -> Session:
    return Session(
        row.id,
        row.tenant_id,
        row.name,
        SessionState(row.state),
        row.node,
        row.snapshot,
        SessionEnd(row.end) if row.end else None,
        row.ttl_seconds,
        row.created_at,
        row.last_used_at,
        row.expires_at,
    )
