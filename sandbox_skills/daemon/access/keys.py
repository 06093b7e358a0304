"""Who has a key: made, shown once, and known again."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from sandbox_skills.daemon.access.limits import TenantLimits, tenant_limits
from sandbox_skills.daemon.access.scopes import Scope
from sandbox_skills.daemon.access.tokens import matches, new_token, prefix_of, token_hash
from sandbox_skills.daemon.errors import KeyInvalidError
from sandbox_skills.daemon.truth.keys import MAX_READ, Keys

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from sandbox_skills.daemon.truth.database import Database
    from sandbox_skills.daemon.truth.keys import ApiKey, KeptKey
    from sandbox_skills.daemon.truth.tenants import Tenant

_NOBODY = token_hash("nobody's")

KEY_HINT = "send a key that counts as `Authorization: Bearer ssk_...`; an admin makes one with `keys create`"


@dataclass(frozen=True, slots=True)
class CreatedKey:
    """A key that was just made; `token` is shown this once."""

    key: ApiKey
    token: str = field(repr=False)


@dataclass(frozen=True)
class Identity:
    """Who asks: a tenant, by one of its keys."""

    tenant: Tenant
    key_id: str
    scopes: frozenset[Scope]

    @property
    def actor(self) -> str:
        """How the audit log names it."""
        return f"key:{self.key_id}"

    @cached_property
    def limits(self) -> TenantLimits:
        """What the tenant may have; raises TenantInvalidError for limits that nobody can have."""
        return tenant_limits(self.tenant.limits)


class KeyRing:
    """Makes keys and tells whose they are. `seen` is told of the tenant of every key that counts."""

    def __init__(self, database: Database, seen: Callable[[Tenant], None] | None = None) -> None:
        self._keys = Keys(database)
        self._clock = database.clock
        self._seen = seen
        self._known: dict[str, tuple[KeptKey, Identity]] = {}

    async def create(
        self,
        tenant_id: str,
        *,
        scopes: Collection[Scope],
        name: str = "",
        expires_at: float | None = None,
        actor: str,
    ) -> CreatedKey:
        """Makes a key; raises TenantNotFoundError."""
        token = new_token()
        key = await self._keys.add(
            tenant_id,
            prefix=token.prefix,
            key_hash=token.hash,
            scopes=[str(scope) for scope in scopes],
            name=name,
            expires_at=expires_at,
            actor=actor,
        )
        return CreatedKey(key, token.text)

    async def identify(self, token: str) -> Identity:
        """Returns whose key it is; raises KeyInvalidError, which never says why it does not count."""
        prefix = prefix_of(token)
        kept = await self._keys.kept(prefix) if prefix else None
        is_right = matches(token, kept.hash if kept else _NOBODY)
        if (
            kept is None
            or not is_right
            or kept.tenant.disabled_at is not None
            or not kept.key.counts(self._clock())
        ):
            raise KeyInvalidError("the key does not count", hint=KEY_HINT)
        await self._keys.used(kept.key)
        if self._seen is not None:
            self._seen(kept.tenant)
        return self._identity(kept)

    def _identity(self, kept: KeptKey) -> Identity:
        """Returns whose key it is, the same as before while nothing of key and tenant has changed."""
        known = self._known.get(kept.key.prefix)
        if known is not None and known[0] is kept:
            return known[1]
        while len(self._known) >= MAX_READ:
            del self._known[next(iter(self._known))]
        made = Identity(kept.tenant, kept.key.id, frozenset(Scope(name) for name in kept.key.scopes))
        self._known[kept.key.prefix] = (kept, made)
        return made
