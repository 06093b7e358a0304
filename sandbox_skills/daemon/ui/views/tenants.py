"""Tenants, their keys and what they use, for an admin. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox_skills.daemon.access.scopes import Scope
from sandbox_skills.daemon.ui.views.artifacts import usage_words
from sandbox_skills.daemon.ui.views.formatting import Time, counted, size, time_of
from sandbox_skills.daemon.ui.views.log_text import page_line
from sandbox_skills.daemon.ui.views.outcomes import Badge, Tone

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sandbox_skills.artifacts.store import Usage
    from sandbox_skills.daemon.access.limits import TenantLimits
    from sandbox_skills.daemon.dispatch.base import QueueDepth
    from sandbox_skills.daemon.truth.audit import AuditEntry
    from sandbox_skills.daemon.truth.keys import ApiKey
    from sandbox_skills.daemon.truth.tenants import Tenant

SCOPES = (
    (Scope.RUN.value, "run skills, and use sessions and artifacts"),
    (Scope.SKILLS_WRITE.value, "add and remove skills"),
    (Scope.ADMIN.value, "rule all tenants"),
)
"""What a key may do, as a form asks for it."""


@dataclass(frozen=True, slots=True)
class TenantRow:
    """One line of the list of tenants."""

    id: str
    name: str
    badge: Badge
    running: int
    queued: int
    ended: int
    kept: str
    created: Time


@dataclass(frozen=True, slots=True)
class TenantList:
    """All tenants."""

    rows: tuple[TenantRow, ...]
    next: str


@dataclass(frozen=True, slots=True)
class KeyRow:
    """One key, without what it proves."""

    id: str
    name: str
    prefix: str
    badge: Badge
    can_revoke: bool
    scopes: str
    used: Time
    ends: Time


@dataclass(frozen=True, slots=True)
class TenantPage:
    """One tenant: what it uses, what it may, who has keys of it. `new_key` is one that was just made, shown once."""

    row: TenantRow
    facts: tuple[tuple[str, str], ...]
    keys: tuple[KeyRow, ...]
    can_disable: bool
    new_key: str = ""
    scopes: tuple[tuple[str, str], ...] = SCOPES


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One deed."""

    seq: int
    at: Time
    actor: str
    action: str
    subject: str


@dataclass(frozen=True, slots=True)
class AuditList:
    """Some deeds, the newest first."""

    rows: tuple[AuditRow, ...]
    next: str


def tenant_row(tenant: Tenant, depth: QueueDepth, usage: Usage, *, ended: int, now: float) -> TenantRow:
    """Returns a tenant as one line; `ended` are runs of the last hour."""
    disabled = tenant.disabled_at is not None
    return TenantRow(
        tenant.id,
        page_line(tenant.name),
        Badge("disabled", Tone.WARN) if disabled else Badge("active", Tone.GOOD),
        depth.running_of.get(tenant.id, 0),
        depth.queued_of.get(tenant.id, 0),
        ended,
        size(usage.bytes),
        time_of(tenant.created_at, now),
    )


def tenant_page(
    row: TenantRow,
    usage: Usage,
    limits: TenantLimits,
    keys: Sequence[ApiKey],
    *,
    new_key: str = "",
    now: float,
) -> TenantPage:
    """Returns the page of one tenant."""
    return TenantPage(
        row,
        tuple(_facts(row, usage, limits)),
        tuple(key_row(key, now) for key in keys),
        can_disable=row.badge.tone is Tone.GOOD,
        new_key=new_key,
    )


def key_row(key: ApiKey, now: float) -> KeyRow:
    """Returns a key as one line."""
    return KeyRow(
        key.id,
        page_line(key.name) or "without a name",
        key.prefix,
        _key_badge(key, now),
        key.revoked_at is None,
        ", ".join(key.scopes),
        time_of(key.last_used_at, now),
        time_of(key.expires_at, now),
    )


def audit_row(entry: AuditEntry, now: float) -> AuditRow:
    """Returns a deed as one line."""
    return AuditRow(
        entry.seq,
        time_of(entry.at, now),
        page_line(entry.actor),
        page_line(entry.action),
        page_line(entry.subject),
    )


def _key_badge(key: ApiKey, now: float) -> Badge:
    if key.revoked_at is not None:
        return Badge("revoked", Tone.QUIET)
    return Badge("counts", Tone.GOOD) if key.counts(now) else Badge("expired", Tone.WARN)


def _facts(row: TenantRow, usage: Usage, limits: TenantLimits) -> Iterable[tuple[str, str]]:
    yield "Running", f"{row.running} of {limits.concurrency} at a time"
    yield "Queued", f"{row.queued} of {limits.queue:,}"
    yield "Ended in the last hour", counted(row.ended, "run")
    yield "Runs a minute", f"at most {limits.runs_per_minute:,}"
    yield "Artifacts", usage_words(usage)
    yield "Artifacts at most", f"{limits.artifact_count:,}, {size(limits.artifact_bytes)}"
    yield "Sessions at most", str(limits.sessions)
    yield "Skills at most", size(limits.skill_bytes)
    yield "Engines", ", ".join(limits.engines) if limits.engines is not None else "all of the server"
