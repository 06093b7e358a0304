"""What each tenant has and does, counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import func, select

from sandbox_skills.daemon.truth.run import RunState
from sandbox_skills.daemon.truth.sessions import SessionState
from sandbox_skills.daemon.truth.tables import RunRow, SessionRow, SkillRow, SkillVersionRow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Select
    from sqlalchemy.orm import Session

    from sandbox_skills.daemon.truth.database import Database

DAY_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class Usage:
    """Of one tenant: runs that wait, go, are kept, and began to wait within a day; open sessions; skills and bytes."""

    queued: int = 0
    running: int = 0
    runs_kept: int = 0
    runs_of_day: int = 0
    sessions: int = 0
    skills: int = 0
    skill_bytes: int = 0


async def usage_of_all(database: Database) -> Mapping[str, Usage]:
    """Returns the usage by tenant id; a tenant that has nothing is missing."""
    return await database.read(lambda session: _usage(session, since=database.clock() - DAY_SECONDS))


def _usage(session: Session, *, since: float) -> Mapping[str, Usage]:
    runs = select(RunRow.tenant_id, func.count()).group_by(RunRow.tenant_id)
    skills = (
        select(SkillRow.tenant_id, func.count(SkillRow.id.distinct()), func.sum(SkillVersionRow.size))
        .join(SkillVersionRow, SkillVersionRow.skill_id == SkillRow.id)
        .where(SkillVersionRow.deleted_at.is_(None))
        .group_by(SkillRow.tenant_id)
    )
    queued = _counts(session, runs.where(RunRow.state == RunState.QUEUED))
    running = _counts(session, runs.where(RunRow.state == RunState.RUNNING))
    kept = _counts(session, runs)
    of_day = _counts(session, runs.where(RunRow.created_at >= since))
    open_ones = select(SessionRow.tenant_id, func.count()).where(SessionRow.state != SessionState.CLOSED)
    sessions = _counts(session, open_ones.group_by(SessionRow.tenant_id))
    kept_skills = {tenant: (count, size) for tenant, count, size in session.execute(skills)}
    return {
        tenant: Usage(
            queued.get(tenant, 0),
            running.get(tenant, 0),
            kept.get(tenant, 0),
            of_day.get(tenant, 0),
            sessions.get(tenant, 0),
            *kept_skills.get(tenant, (0, 0)),
        )
        for tenant in kept.keys() | sessions.keys() | kept_skills.keys()
    }


def _counts(session: Session, query: Select[str, int]) -> dict[str, int]:
    return {tenant: count for tenant, count in session.execute(query)}  # noqa: C416  # rows are no pairs to `dict`
