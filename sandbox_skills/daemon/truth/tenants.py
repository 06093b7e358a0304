"""Tenants, and the transactions that make and change them; each is in the audit log with its change."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, select
from sqlalchemy.exc import IntegrityError

from sandbox_skills.daemon.errors import TenantExistsError, TenantInvalidError, TenantNotFoundError
from sandbox_skills.daemon.truth import audit
from sandbox_skills.daemon.truth.audit import Deed
from sandbox_skills.daemon.truth.changes import Change
from sandbox_skills.daemon.truth.ids import new_id
from sandbox_skills.daemon.truth.prepared import Prepared
from sandbox_skills.daemon.truth.tables import TENANT, TenantRow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Row
    from sqlalchemy.orm import Session

    from sandbox_skills.daemon.truth.database import Database

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")

NAME_HINT = "1 to 63 characters of a-z, 0-9 and -, neither first nor last a -"
"""The form of a DNS label: it fits into addresses, labels and file names."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant. `limits` and `policy` are JSON that `access` reads; `id` is what stores know it by."""

    id: str
    name: str
    limits: Mapping[str, Any]
    policy: Mapping[str, Any]
    created_at: float
    disabled_at: float | None

    def as_dict(self) -> dict[str, Any]:
        """Returns the one spelling of a tenant, for JSON."""
        return asdict(self)


class Tenants:
    """Every tenant of the server."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(
        self,
        name: str,
        *,
        limits: Mapping[str, Any] | None = None,
        policy: Mapping[str, Any] | None = None,
        actor: str,
    ) -> Tenant:
        """Makes a tenant; raises TenantInvalidError for a name that is none, TenantExistsError."""
        if not _NAME.fullmatch(name):
            raise TenantInvalidError(f"{name[:80]!r} is no name of a tenant", hint=NAME_HINT)
        now = self._database.clock()
        row = TenantRow(
            id=new_id(),
            name=name,
            limits=dict(limits or {}),
            policy=dict(policy or {}),
            turn=0,
            created_at=now,
            disabled_at=None,
        )

        def add(session: Session) -> Tenant:
            session.add(row)
            session.flush()
            deed = Deed(actor, "tenant.create", f"tenant:{row.id}", row.id, {"name": name})
            audit.append(session.connection(), deed, at=now)
            return tenant_of(row)

        try:
            return await self._database.write(Change.TENANT_CREATE, add)
        except IntegrityError as error:
            raise TenantExistsError(f"there is a tenant named {name} already") from error

    async def get(self, tenant_id: str) -> Tenant:
        """Returns one tenant; raises TenantNotFoundError."""
        row = self._database.look(_BY_ID, tenant=tenant_id)
        if row is None:
            raise missing(tenant_id)
        return tenant_of(row)

    async def named(self, name: str) -> Tenant:
        """Returns the tenant of that name or id; raises TenantNotFoundError."""

        def find(session: Session) -> Tenant:
            row = session.scalar(select(TenantRow).where(TenantRow.name == name))
            return tenant_of(row if row is not None else found(session, name))

        return await self._database.read(find)

    async def list(self, *, after: str = "", limit: int | None = None) -> Sequence[Tenant]:
        """Returns the tenants behind the id `after`, oldest first; all of them without a limit."""
        query = select(TenantRow).where(TenantRow.id > after).order_by(TenantRow.id).limit(limit)
        return await self._database.read(lambda session: [tenant_of(row) for row in session.scalars(query)])

    async def update(
        self,
        tenant_id: str,
        *,
        limits: Mapping[str, Any] | None = None,
        policy: Mapping[str, Any] | None = None,
        disabled: bool | None = None,
        actor: str,
    ) -> Tenant:
        """Changes what is not None, limits and policy as a whole; raises TenantNotFoundError.

        The keys of a disabled tenant do not count; what of its runs is going goes on.
        """
        now = self._database.clock()
        asked = {"limits": limits, "policy": policy, "disabled": disabled}
        detail = {name: value for name, value in asked.items() if value is not None}

        def change(session: Session) -> Tenant:
            row = found(session, tenant_id)
            if limits is not None:
                row.limits = dict(limits)
            if policy is not None:
                row.policy = dict(policy)
            if disabled is not None:
                row.disabled_at = (row.disabled_at or now) if disabled else None
            audit.append(
                session.connection(), Deed(actor, "tenant.update", f"tenant:{row.id}", row.id, detail), at=now
            )
            return tenant_of(row)

        return await self._database.write(Change.TENANT_UPDATE, change)


_BY_ID = Prepared(select(*TENANT.c).where(TENANT.c.id == bindparam("tenant")))


def found(session: Session, tenant_id: str) -> TenantRow:
    """Returns a tenant's row, to be changed; raises TenantNotFoundError."""
    row = session.get(TenantRow, tenant_id)
    if row is None:
        raise missing(tenant_id)
    return row


def missing(tenant_id: str) -> TenantNotFoundError:
    """Returns the error for a tenant that is not there."""
    hint = "sandbox-skills tenants list tells them"
    return TenantNotFoundError(f"there is no tenant {tenant_id[:80]!r}", hint=hint)


def tenant_of(row: TenantRow | Row[Any]) -> Tenant:
    """Returns a row as a value."""
    return Tenant(row.id, row.name, row.limits, row.policy, row.created_at, row.disabled_at)
