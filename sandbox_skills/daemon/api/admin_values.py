"""What an admin sends and is told."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, JsonValue

from sandbox_skills.daemon.access.scopes import Scope
from sandbox_skills.daemon.api.values import Given, Told, Words

_ID = "01JDZ6V7Z3M9QHTR4W8YB2C5KD"
_MOMENT = "2026-11-28T09:00:00.000Z"

MAX_SECONDS = 100 * 366 * 86_400.0
"""Of a key's life: who wants more says nothing, and it lives for ever."""

Limits = Annotated[
    dict[str, Any], Field(description="Limits of its own, over the server's: those that are not here stay.")
]
PolicyRules = Annotated[
    dict[str, Any], Field(description="Rules of its own, as the settings' `policy.tenants` has them.")
]


class NewTenant(Given):
    """A tenant to be made."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={"examples": [{"name": "acme", "limits": {"concurrency": 2}}]},
    )

    name: str = Field(max_length=1000, description="1 to 63 characters of a-z, 0-9 and -.")
    limits: Limits = Field(default_factory=dict[str, Any])
    policy: PolicyRules = Field(default_factory=dict[str, Any])


class TenantChange(Given):
    """What is to be different; what is not here stays. Limits and rules are replaced as a whole."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, json_schema_extra={"examples": [{"disabled": True}]}
    )

    limits: Limits | None = None
    policy: PolicyRules | None = None
    disabled: bool | None = Field(default=None, description="Its keys do not count while it is.")


class TenantTold(Told):
    """A tenant."""

    model_config = ConfigDict(
        frozen=True,
        json_schema_extra={
            "examples": [
                {
                    "id": _ID,
                    "object": "tenant",
                    "name": "acme",
                    "limits": {"concurrency": 2},
                    "effective_limits": {"concurrency": 2, "queue": 1000},
                    "policy": {},
                    "created_at": _MOMENT,
                    "disabled_at": None,
                }
            ]
        },
    )

    id: str
    object: Literal["tenant"] = "tenant"
    name: str
    limits: dict[str, Any]
    effective_limits: dict[str, Any] = Field(description="What counts: its own, else the server's.")
    policy: dict[str, Any]
    created_at: str
    disabled_at: str | None


class NewKey(Given):
    """A key to be made."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={"examples": [{"name": "laptop", "scopes": ["run", "skills:write"]}]},
    )

    name: Annotated[Words, Field(max_length=200)] = ""
    scopes: Annotated[frozenset[Scope], Field(min_length=1)] = frozenset({Scope.RUN})
    expires_in_seconds: (
        Annotated[float, Field(gt=0, le=MAX_SECONDS, description="null: never.", allow_inf_nan=False)] | None
    ) = None


_KEY: dict[str, JsonValue] = {
    "id": _ID,
    "object": "api_key",
    "tenant_id": _ID,
    "prefix": "ssk_0123456789abcdef",
    "scopes": ["run"],
    "name": "laptop",
    "created_at": _MOMENT,
    "expires_at": None,
    "revoked_at": None,
    "last_used_at": None,
}


class KeyTold(Told, json_schema_extra={"examples": [_KEY]}):
    """What may be told of a key."""

    id: str
    object: Literal["api_key"] = "api_key"
    tenant_id: str
    prefix: str = Field(description="How it starts, to tell it from others.")
    scopes: list[Scope]
    name: str
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None = Field(description="To the minute.")


class NewKeyTold(KeyTold, json_schema_extra={"examples": [{**_KEY, "key": "ssk_0123456789abcdef_..."}]}):
    """A key that was just made."""

    key: str = Field(description="The key itself. It is shown this once and kept nowhere.")


class AuditTold(
    Told,
    json_schema_extra={
        "examples": [
            {
                "seq": 17,
                "at": 1795856400.0,
                "tenant_id": _ID,
                "actor": f"key:{_ID}",
                "action": "run.submit",
                "subject": f"run:{_ID}",
                "detail": {"kind": "skill", "skill": "csv-report"},
                "previous": "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8",
                "hash": "3f0a5c7d9b1e2a4c6d8f0b1c3e5a7d9f3f0a5c7d9b1e2a4c6d8f0b1c3e5a7d9f",
            }
        ]
    },
):
    """One deed. `hash` is SHA-256 over all else of it as JSON with sorted keys."""

    seq: int
    at: float = Field(description="UTC seconds since the epoch, as the hash covers them.")
    tenant_id: str | None
    actor: str
    action: str
    subject: str
    detail: dict[str, Any]
    previous: str = Field(description="The hash of the entry before.")
    hash: str


class ArtifactsUsed(Told, json_schema_extra={"examples": [{"names": 3, "count": 5, "bytes": 20480}]}):
    """What is kept of artifacts."""

    names: int
    count: int
    bytes: int


class UsageTold(
    Told,
    json_schema_extra={
        "examples": [
            {
                "tenant_id": _ID,
                "name": "acme",
                "queued": 0,
                "running": 1,
                "runs_kept": 420,
                "runs_of_day": 37,
                "sessions": 2,
                "skills": 1,
                "skill_bytes": 5120,
                "artifacts": {"names": 3, "count": 5, "bytes": 20480},
                "limits": {"concurrency": 2, "queue": 1000},
            }
        ]
    },
):
    """What one tenant has and does, beside what it may."""

    tenant_id: str
    name: str
    queued: int
    running: int
    runs_kept: int
    runs_of_day: int = Field(description="That were asked for within the last 24 hours.")
    sessions: int
    skills: int
    skill_bytes: int
    artifacts: ArtifactsUsed
    limits: dict[str, Any]


class UsageList(Told):
    """Every tenant."""

    items: list[UsageTold]
