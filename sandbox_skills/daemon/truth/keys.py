"""API keys as rows: what names a key and the hash of it, never the key. `access.keys` makes and knows them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, select, update

from sandbox_skills.daemon.errors import KeyNotFoundError
from sandbox_skills.daemon.truth import audit
from sandbox_skills.daemon.truth.audit import Deed
from sandbox_skills.daemon.truth.changes import Change
from sandbox_skills.daemon.truth.ids import new_id
from sandbox_skills.daemon.truth.prepared import Prepared, as_text
from sandbox_skills.daemon.truth.tables import KEY, TENANT, KeyRow
from sandbox_skills.daemon.truth.tenants import Tenant, found

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Row
    from sqlalchemy.orm import Session

    from sandbox_skills.daemon.truth.database import Database

USED_EVERY_SECONDS = 60.0
"""How exact `last_used_at` is: it says whether a key is in use, and costs no change for each request."""

MAX_READ = 1_000
"""Keys of which is remembered what was read of them, a kilobyte each: more are not in use at once."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """What may be told of a key; times are UTC seconds since the epoch."""

    id: str
    tenant_id: str
    prefix: str
    scopes: tuple[str, ...]
    name: str
    created_at: float
    expires_at: float | None
    revoked_at: float | None
    last_used_at: float | None

    def counts(self, now: float) -> bool:
        """Tells whether the key is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def as_dict(self) -> dict[str, Any]:
        """Returns the one spelling of a key, for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class KeptKey:
    """A key with its hash and its tenant: what it takes to tell whether someone has it."""

    key: ApiKey
    hash: str
    tenant: Tenant


class Keys:
    """The keys of every tenant."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._read: dict[str, tuple[Row[Any], KeptKey]] = {}

    async def add(
        self,
        tenant_id: str,
        *,
        prefix: str,
        key_hash: str,
        scopes: Sequence[str],
        name: str,
        expires_at: float | None,
        actor: str,
    ) -> ApiKey:
        """Keeps a new key; raises TenantNotFoundError."""
        now = self._database.clock()
        row = KeyRow(
            id=new_id(),
            tenant_id=tenant_id,
            prefix=prefix,
            hash=key_hash,
            scopes=sorted(scopes),
            name=name,
            created_at=now,
            expires_at=expires_at,
            revoked_at=None,
            last_used_at=None,
        )
        detail = {"prefix": prefix, "scopes": sorted(scopes), "name": name, "expires_at": expires_at}

        def insert(session: Session) -> ApiKey:
            found(session, tenant_id)
            session.add(row)
            audit.append(
                session.connection(), Deed(actor, "key.create", f"key:{row.id}", tenant_id, detail), at=now
            )
            return _key(row)

        return await self._database.write(Change.KEY_CREATE, insert)

    async def list(self, tenant_id: str | None = None) -> Sequence[ApiKey]:
        """Returns the keys of one tenant, or of all, oldest first."""
        query = select(KeyRow).order_by(KeyRow.id)
        if tenant_id is not None:
            query = query.where(KeyRow.tenant_id == tenant_id)
        return await self._database.read(lambda session: [_key(row) for row in session.scalars(query)])

    async def revoke(self, key_id: str, *, tenant_id: str | None = None, actor: str) -> ApiKey:
        """Ends a key at once; one that is revoked stays so. Raises KeyNotFoundError, also for a foreign tenant's."""
        now = self._database.clock()

        def end(session: Session) -> ApiKey:
            row = session.get(KeyRow, key_id)
            if row is None or tenant_id not in {None, row.tenant_id}:
                raise KeyNotFoundError(f"there is no key {key_id[:80]!r}")
            if row.revoked_at is None:
                row.revoked_at = now
                audit.append(
                    session.connection(), Deed(actor, "key.revoke", f"key:{key_id}", row.tenant_id), at=now
                )
            return _key(row)

        return await self._database.write(Change.KEY_REVOKE, end)

    async def kept(self, prefix: str) -> KeptKey | None:
        """Returns the key that a prefix names, with its tenant: the same object while nothing of both has changed."""
        row = self._database.look(_BY_PREFIX, prefix=prefix)
        if row is None:
            return None
        known = self._read.get(prefix)
        if known is not None and known[0] == row:
            return known[1]
        while len(self._read) >= MAX_READ:
            del self._read[next(iter(self._read))]
        self._read[prefix] = (row, _kept(row))
        return self._read[prefix][1]

    async def used(self, key: ApiKey) -> None:
        """Remembers that a key is in use, at most once every USED_EVERY_SECONDS."""
        now = self._database.clock()
        if key.last_used_at is None or now - key.last_used_at >= USED_EVERY_SECONDS:
            query = update(KeyRow).where(KeyRow.id == key.id).values(last_used_at=now)
            await self._database.write(Change.KEY_USED, lambda session: session.execute(query))


_BY_PREFIX = Prepared(
    select(
        *(one for one in KEY.c if one is not KEY.c.scopes),
        as_text(KEY.c.scopes),
        TENANT.c.name.label("tenant_name"),
        as_text(TENANT.c.limits),
        as_text(TENANT.c.policy),
        TENANT.c.created_at.label("tenant_created_at"),
        TENANT.c.disabled_at,
    )
    .join_from(KEY, TENANT)
    .where(KEY.c.prefix == bindparam("prefix"))
)


def _kept(row: Row[Any]) -> KeptKey:
    limits, policy = json.loads(row.limits), json.loads(row.policy)
    tenant = Tenant(row.tenant_id, row.tenant_name, limits, policy, row.tenant_created_at, row.disabled_at)
    return KeptKey(_key(row, json.loads(row.scopes)), row.hash, tenant)


def _key(row: KeyRow | Row[Any], scopes: Sequence[str] | None = None) -> ApiKey:
    return ApiKey(
        row.id,
        row.tenant_id,
        row.prefix,
        tuple(row.scopes if scopes is None else scopes),
        row.name,
        row.created_at,
        row.expires_at,
        row.revoked_at,
        row.last_used_at,
    )
