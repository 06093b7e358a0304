"""Tenants' skills and their versions: numbers are given once, and a version's content never changes.

Functions of a session, each of them part of one transaction.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select, update

from sandbox_skills.daemon.truth.ids import new_id
from sandbox_skills.daemon.truth.run import RunState
from sandbox_skills.daemon.truth.tables import RunRow, SkillRow, SkillVersionRow
from sandbox_skills.errors import QuotaError, SkillNotFoundError
from sandbox_skills.spec import MIB

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Select
    from sqlalchemy.orm import Session

_MAX_ASKED = 128
"""Characters of an unknown name that an error repeats."""


@dataclass(frozen=True, slots=True)
class SkillQuota:
    """What one tenant may keep of skills: their number, versions of all, and bytes of all contents."""

    skills: int = 1_000
    versions: int = 10_000
    bytes: int = 2_048 * MIB


@dataclass(frozen=True, slots=True)
class NewVersion:
    """A content that is to become a skill's latest version. `size` is bytes."""

    name: str
    description: str
    digest: str
    size: int
    files: int
    diagnostics: Sequence[dict[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class SkillVersion:
    """One version of one skill, with what its skill is called. `latest` is whether it is the newest that is left."""

    name: str
    description: str
    version: int
    digest: str
    size: int
    files: int
    created_at: float
    latest: bool
    diagnostics: Sequence[dict[str, Any]] = field(default=(), hash=False)


def add_version(
    session: Session, new: NewVersion, *, tenant_id: str, now: float, quota: SkillQuota
) -> tuple[SkillVersion, bool]:
    """Returns the version that has this content, and whether it is new: what the latest one holds is not added again.

    Raises QuotaError.
    """
    skill = session.scalar(_skill(tenant_id, new.name))
    if skill is not None and (latest := _latest(session, skill)) and latest.digest == new.digest:
        return _value(skill, latest), False
    _admit(session, new, tenant_id, quota)
    if skill is None:
        skill = _made(session, new, tenant_id, now)
    row = SkillVersionRow(
        id=new_id(),
        skill_id=skill.id,
        version=skill.next_version,
        digest=new.digest,
        description=new.description,
        size=new.size,
        files=new.files,
        diagnostics=list(new.diagnostics),
        created_at=now,
        deleted_at=None,
    )
    session.add(row)
    skill.latest, skill.next_version = row.version, row.version + 1
    skill.description, skill.updated_at = new.description, now
    return _value(skill, row), True


def latest_versions(session: Session, *, tenant_id: str) -> list[SkillVersion]:
    """Returns the latest version of each skill, by name."""
    rows = session.execute(_live(tenant_id).where(SkillRow.latest == SkillVersionRow.version))
    return [_value(skill, row) for skill, row in rows]


def versions_of(session: Session, name: str, *, tenant_id: str) -> list[SkillVersion]:
    """Returns the versions of a skill that are left, the newest first; raises SkillNotFoundError where none is."""
    wanted = _live(tenant_id).where(SkillRow.name == name).order_by(SkillVersionRow.version.desc())
    found = [_value(skill, row) for skill, row in session.execute(wanted)]
    if not found:
        raise _missing(name)
    return found


def version_of(session: Session, name: str, version: int | None, *, tenant_id: str) -> SkillVersion:
    """Returns one version of a skill, None for the latest; raises SkillNotFoundError."""
    number = SkillRow.latest if version is None else version
    wanted = _live(tenant_id).where(SkillRow.name == name, SkillVersionRow.version == number)
    found = session.execute(wanted).first()
    if found is None:
        raise _missing(name, version)
    return _value(*found)


def delete_version(session: Session, name: str, version: int | None, *, tenant_id: str, now: float) -> None:
    """Deletes one version of a skill, every one for None; raises SkillNotFoundError where there is none."""
    skill = session.scalar(_skill(tenant_id, name))
    if skill is None:
        raise _missing(name, version)
    live = update(SkillVersionRow).where(
        SkillVersionRow.skill_id == skill.id, SkillVersionRow.deleted_at.is_(None)
    )
    if version is not None:
        live = live.where(SkillVersionRow.version == version)
    found = session.scalars(live.values(deleted_at=now).returning(SkillVersionRow.version)).all()
    if not found:
        raise _missing(name, version)
    left = select(func.max(SkillVersionRow.version)).where(
        SkillVersionRow.skill_id == skill.id, SkillVersionRow.deleted_at.is_(None)
    )
    skill.latest, skill.updated_at = session.scalar(left), now


def kept_digests(session: Session, *, tenant_id: str) -> frozenset[str]:
    """Returns the contents that are needed: those of versions, and those that a run waits for or uses."""
    of_versions = session.scalars(_live(tenant_id).with_only_columns(SkillVersionRow.digest))
    of_runs = session.scalars(
        select(RunRow.skill_digest).where(RunRow.tenant_id == tenant_id, RunRow.state != RunState.FINISHED)
    )
    return frozenset([*of_versions, *of_runs])


def _skill(tenant_id: str, name: str) -> Select[SkillRow]:
    return select(SkillRow).where(SkillRow.tenant_id == tenant_id, SkillRow.name == name)


def _live(tenant_id: str) -> Select[SkillRow, SkillVersionRow]:
    joined = select(SkillRow, SkillVersionRow).join(SkillVersionRow, SkillVersionRow.skill_id == SkillRow.id)
    return joined.where(SkillRow.tenant_id == tenant_id, SkillVersionRow.deleted_at.is_(None)).order_by(
        SkillRow.name
    )


def _latest(session: Session, skill: SkillRow) -> SkillVersionRow | None:
    return session.scalar(
        select(SkillVersionRow).where(
            SkillVersionRow.skill_id == skill.id, SkillVersionRow.version == skill.latest
        )
    )


def _made(session: Session, new: NewVersion, tenant_id: str, now: float) -> SkillRow:
    skill = SkillRow(
        id=new_id(),
        tenant_id=tenant_id,
        name=new.name,
        description=new.description,
        latest=None,
        next_version=1,
        created_at=now,
        updated_at=now,
    )
    session.add(skill)
    session.flush()
    return skill


def _admit(session: Session, new: NewVersion, tenant_id: str, quota: SkillQuota) -> None:
    live = _live(tenant_id).order_by(None)
    counted = live.with_only_columns(
        func.count(SkillVersionRow.id), func.coalesce(func.sum(SkillVersionRow.size), 0)
    )
    versions, size = session.execute(counted).one()
    names = set(session.scalars(live.with_only_columns(SkillRow.name)))
    full = (
        (len(names | {new.name}) > quota.skills, f"{quota.skills} skills"),
        (versions >= quota.versions, f"{quota.versions} versions"),
        (size + new.size > quota.bytes, f"{quota.bytes} bytes of skills"),
    )
    for over, what in full:
        if over:
            raise QuotaError(f"more than {what} may not be kept", hint="delete skills or versions first")


def _value(skill: SkillRow, row: SkillVersionRow) -> SkillVersion:
    return SkillVersion(
        name=skill.name,
        description=row.description,
        version=row.version,
        digest=row.digest,
        size=row.size,
        files=row.files,
        created_at=row.created_at,
        latest=skill.latest == row.version,
        diagnostics=tuple(row.diagnostics),
    )


def _missing(name: str, version: int | None = None) -> SkillNotFoundError:
    of = "" if version is None else f" in version {version}"
    return SkillNotFoundError(f"no skill is named {name[:_MAX_ASKED]!r}{of}", hint="see the list of skills")
