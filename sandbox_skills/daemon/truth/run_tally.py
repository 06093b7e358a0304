"""What ended in a while, counted by the database: how many runs, how many of them badly, how long they took."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import Integer, and_, case, cast, func, not_, or_, select

from sandbox_skills.daemon.truth.run import RunState
from sandbox_skills.daemon.truth.tables import RunRow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import ColumnElement
    from sqlalchemy.orm import Session

    from sandbox_skills.daemon.truth.database import Database

MAX_DURATIONS = 5000
"""Durations that are looked at, those of the newest runs: a percentile of more says nothing else."""


@dataclass(frozen=True, slots=True)
class RunTally:
    """Runs that ended from `since` on, in steps of `step_seconds`: how many of each step, and how many failed.

    Steps are counted from 0. `seconds` are durations from start to end in ascending order, of at most MAX_DURATIONS.
    """

    ended: Mapping[int, int]
    failed: Mapping[int, int]
    seconds: tuple[float, ...]


async def tally(database: Database, *, since: float, step_seconds: float, tenant_id: str | None) -> RunTally:
    """Returns what ended since then, of every tenant for None. A run that was cancelled has not failed."""
    return await database.read(partial(_tally, since=since, step_seconds=step_seconds, tenant_id=tenant_id))


async def ended_of(database: Database, *, since: float) -> Mapping[str, int]:
    """Returns how many runs of each tenant have ended since then."""
    inside = and_(RunRow.state == RunState.FINISHED, RunRow.finished_at > since)
    counts = select(RunRow.tenant_id, func.count()).where(inside).group_by(RunRow.tenant_id)
    return await database.read(lambda session: {row[0]: row[1] for row in session.execute(counts)})


def _tally(session: Session, *, since: float, step_seconds: float, tenant_id: str | None) -> RunTally:
    inside = and_(RunRow.state == RunState.FINISHED, RunRow.finished_at > since)
    if tenant_id is not None:
        inside = and_(inside, RunRow.tenant_id == tenant_id)
    step = cast((RunRow.finished_at - since) / step_seconds, Integer)
    failed = func.sum(case((_failed(), 1), else_=0))
    rows = session.execute(select(step, func.count(), failed).where(inside).group_by(step)).all()
    durations = session.scalars(
        select(RunRow.finished_at - RunRow.started_at)
        .where(inside, RunRow.started_at.is_not(None))
        .order_by(RunRow.finished_at.desc())
        .limit(MAX_DURATIONS)
    )
    return RunTally(
        {number: count for number, count, _ in rows},
        {number: int(count) for number, _, count in rows},
        tuple(sorted(taken for taken in durations if taken is not None)),
    )


def _failed() -> ColumnElement[bool]:
    kind = RunRow.outcome["type"].as_string()
    exited_well = and_(kind == "exited", RunRow.outcome["code"].as_integer() == 0)
    cancelled = and_(kind == "stopped", RunRow.outcome["reason"].as_string() == "cancelled")
    return not_(or_(exited_well, cancelled))
