"""Who asks: the tenant of the key that the request brings, and what that key may do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

from fastapi import Depends, Security
from fastapi.security import APIKeyHeader, HTTPBearer
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection

from sandbox_skills.daemon.access.keys import KEY_HINT
from sandbox_skills.daemon.access.limits import TenantLimits, check_engine
from sandbox_skills.daemon.access.scopes import Scope
from sandbox_skills.daemon.api.dependencies import TheDaemon
from sandbox_skills.daemon.errors import KeyInvalidError, ScopeError
from sandbox_skills.daemon.truth.tenants import Tenant
from sandbox_skills.daemon.working.daemon import Daemon


class _ByBearer(HTTPBearer):
    """What the document says of the usual way to send a key; `token_in` reads it."""

    async def __call__(self, request: HTTPConnection) -> None:
        """Reads nothing."""


class _ByHeader(APIKeyHeader):
    """What the document says of the other way."""

    async def __call__(self, request: HTTPConnection) -> None:
        """Reads nothing."""


_BEARER = _ByBearer(scheme_name="HTTPBearer", description="A key: `Authorization: Bearer ssk_...`")
_HEADER = _ByHeader(
    name="X-API-Key", scheme_name="APIKeyHeader", description="A key, for clients that set no bearer."
)


@dataclass(frozen=True, slots=True)
class Caller:
    """A tenant, as it is now, by one of its keys. `actor` is what the audit log calls it."""

    tenant: Tenant
    key_id: str
    scopes: frozenset[Scope]
    actor: str
    limits: TenantLimits
    again: Callable[[], Awaitable[object]] = field(repr=False, compare=False)
    """Looks at the key anew; raises KeyInvalidError."""

    @property
    def tenant_id(self) -> str:
        """What stores know it by."""
        return self.tenant.id

    @property
    def tenant_name(self) -> str:
        """What policies call it."""
        return self.tenant.name

    async def counts(self) -> bool:
        """Whether the key counts still: what lasts longer than a request asks now and then."""
        try:
            await self.again()
        except KeyInvalidError:
            return False
        return True

    def need(self, scope: Scope) -> None:
        """Raises ScopeError where the key may not do this."""
        if scope not in self.scopes:
            raise ScopeError(f"this key lacks the scope {scope}", hint="use a key that has it")

    def need_engine(self, daemon: Daemon) -> None:
        """Raises PolicyError where the tenant may not have sandboxes of this server's engine."""
        check_engine(self.limits, daemon.settings.engine)


async def identified(daemon: Daemon, token: str | None) -> Caller:
    """Returns whose key it is; raises KeyInvalidError."""
    if not token:
        raise KeyInvalidError("the request has no key", hint=KEY_HINT)
    identity = await daemon.keys.identify(token)
    return Caller(
        identity.tenant,
        identity.key_id,
        identity.scopes,
        identity.actor,
        identity.limits,
        partial(daemon.keys.identify, token),
    )


async def caller(
    daemon: TheDaemon,
    connection: HTTPConnection,
    bearer: Annotated[None, Security(_BEARER)],  # noqa: ARG001  # said, not read
    header: Annotated[None, Security(_HEADER)],  # noqa: ARG001
) -> Caller:
    """Returns who asks, whatever the key may do."""
    return await identified(daemon, token_in(connection.headers))


def token_in(headers: Headers) -> str | None:
    """Returns the key that a request brings, None without one. Pure."""
    kind, _, token = headers.get("authorization", "").partition(" ")
    token = token.strip() if kind.lower() == "bearer" else ""
    return token or headers.get("x-api-key")


def requires(scope: Scope) -> Callable[[Caller], Awaitable[Caller]]:
    """Returns the dependency that gives whoever asks, if the key may do this."""

    async def allowed(who: Annotated[Caller, Depends(caller)]) -> Caller:
        who.need(scope)
        return who

    return allowed


AnyCaller = Annotated[Caller, Depends(caller)]
Runner = Annotated[Caller, Depends(requires(Scope.RUN))]
SkillWriter = Annotated[Caller, Depends(requires(Scope.SKILLS_WRITE))]
Admin = Annotated[Caller, Depends(requires(Scope.ADMIN))]
