"""The audit log: rows that are only added, each with a hash over itself and the hash before it.

A row that was changed, taken out or put in shows as the first that does not fit. Rows cut off at the end do not show
by themselves: whoever wants to know keeps the newest number and hash elsewhere, and gives them to `verify`.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import insert, select

from sandbox_skills.daemon.errors import AuditDamagedError
from sandbox_skills.daemon.truth.changes import Change
from sandbox_skills.daemon.truth.prepared import Prepared, named
from sandbox_skills.daemon.truth.tables import AUDIT, AuditRow

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from sqlalchemy import Connection

    from sandbox_skills.daemon.truth.database import Database

NO_HASH = "0" * 64
"""What the first row has for the hash before it."""

BATCH = 1000
"""Rows of one read: about half a megabyte."""


@dataclass(frozen=True, slots=True)
class Deed:
    """Who did what to whom. `actor` is `key:ID`, `cli` or `daemon`; `subject` is `run:ID` or the like."""

    actor: str
    action: str
    subject: str
    tenant_id: str | None = None
    detail: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A row of the log; `seq` counts from 1 without a hole, `at` is UTC seconds since the epoch."""

    seq: int
    at: float
    tenant_id: str | None
    actor: str
    action: str
    subject: str
    detail: Mapping[str, Any]
    previous: str
    hash: str

    def as_dict(self) -> dict[str, Any]:
        """Returns the one spelling of an entry, for JSON."""
        return {name: getattr(self, name) for name in AuditEntry.__slots__}


def entry_hash(entry: AuditEntry) -> str:
    """Returns the hash that an entry must have: SHA-256 over all else of it as JSON with sorted keys. Pure."""
    content = {name: value for name, value in entry.as_dict().items() if name != "hash"}
    return hashlib.sha256(_CANONICAL.encode(content).encode()).hexdigest()


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def append(connection: Connection, deed: Deed, *, at: float) -> None:
    """Adds a deed within the transaction that does it, so that neither is there without the other."""
    head = _HEAD.first(connection)
    seq, previous = (head.seq + 1, head.hash) if head else (1, NO_HASH)
    text = json.dumps(dict(deed.detail))
    detail = json.loads(text)  # as it will be read
    entry = AuditEntry(
        seq, at, deed.tenant_id, deed.actor, deed.action, deed.subject, detail, previous, hash=""
    )
    _ADD.run(connection, {**entry.as_dict(), "detail": text, "hash": entry_hash(entry)})


_HEAD = Prepared(select(AUDIT.c.seq, AUDIT.c.hash).order_by(AUDIT.c.seq.desc()).limit(1).with_for_update())
_ADD = Prepared(insert(AUDIT).values(named(AuditEntry.__slots__, as_json={"detail"})))


class AuditTrail:
    """The log as a whole."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def record(self, deed: Deed) -> None:
        """Adds a deed that changes nothing in the database."""
        now = self._database.clock()
        await self._database.transact(
            Change.AUDIT_APPEND, lambda connection: append(connection, deed, at=now)
        )

    async def page(
        self, *, after: int = 0, limit: int = BATCH, tenant_id: str | None = None
    ) -> Sequence[AuditEntry]:
        """Returns the entries behind number `after`, oldest first; of one tenant where it is named."""
        query = select(AuditRow).where(AuditRow.seq > after).order_by(AuditRow.seq).limit(limit)
        if tenant_id is not None:
            query = query.where(AuditRow.tenant_id == tenant_id)
        return await self._database.read(lambda session: [_entry(row) for row in session.scalars(query)])

    async def newest(self, *, before: int | None = None, limit: int = BATCH) -> Sequence[AuditEntry]:
        """Returns the entries ahead of number `before`, or all, the newest first."""
        query = select(AuditRow).order_by(AuditRow.seq.desc()).limit(limit)
        if before is not None:
            query = query.where(AuditRow.seq < before)
        return await self._database.read(lambda session: [_entry(row) for row in session.scalars(query)])

    async def entries(self) -> AsyncGenerator[AuditEntry]:
        """Yields every entry, oldest first."""
        after = 0
        while page := await self.page(after=after):
            for entry in page:
                yield entry
            after = page[-1].seq

    async def verify(self, *, known: tuple[int, str] | None = None) -> AuditEntry | None:
        """Returns the newest entry when all fit together, None for an empty log; raises AuditDamagedError.

        `known` is the number and hash of an entry that was seen before: it must still be there.
        """
        last: AuditEntry | None = None
        async for entry in self.entries():
            check_next(last, entry)
            check_known(entry, known)
            last = entry
        if known is not None and known[0] > (last.seq if last else 0):
            raise AuditDamagedError(f"entry {known[0]}, which is known, is missing", seq=known[0])
        return last


def check_next(last: AuditEntry | None, entry: AuditEntry) -> None:
    """Raises AuditDamagedError where an entry does not follow the one before. Pure."""
    seq, previous = (last.seq + 1, last.hash) if last else (1, NO_HASH)
    if entry.seq != seq:
        raise AuditDamagedError(f"entry {seq} is missing: {entry.seq} comes in its place", seq=seq)
    if entry.previous != previous:
        raise AuditDamagedError(f"entry {seq} does not follow the one before it", seq=seq)
    if entry.hash != entry_hash(entry):
        raise AuditDamagedError(f"entry {seq} was changed after it was written", seq=seq)


def check_known(entry: AuditEntry, known: tuple[int, str] | None) -> None:
    """Raises AuditDamagedError where an entry is not the one that was seen before under its number. Pure."""
    if known is not None and entry.seq == known[0] and entry.hash != known[1]:
        raise AuditDamagedError(f"entry {entry.seq} is not the one that is known", seq=entry.seq)


def _entry(row: AuditRow) -> AuditEntry:
    return AuditEntry(
        row.seq,
        row.at,
        row.tenant_id,
        row.actor,
        row.action,
        row.subject,
        row.detail,
        row.previous,
        row.hash,
    )
