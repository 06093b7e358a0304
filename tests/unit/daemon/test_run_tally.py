"""What ended in a while, counted by the database."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.daemon.truth.changes import Change
from sandbox_skills.daemon.truth.database import DATABASE_FILE, opened_database
from sandbox_skills.daemon.truth.ids import new_id
from sandbox_skills.daemon.truth.run import NewRun, RunState
from sandbox_skills.daemon.truth.run_tally import RunTally, ended_of, tally
from sandbox_skills.daemon.truth.runs import new_run, row_values
from sandbox_skills.daemon.truth.tables import RunRow
from sandbox_skills.daemon.truth.tenants import Tenants

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from sqlalchemy.orm import Session

    from sandbox_skills.daemon.truth.database import Database

pytestmark = pytest.mark.anyio

GOOD: dict[str, object] = {"type": "exited", "code": 0}


@pytest.fixture
async def database(tmp_path: Path) -> AsyncGenerator[Database]:
    async with opened_database(tmp_path / DATABASE_FILE, clock=lambda: 1000.0) as opened:
        yield opened


@pytest.fixture
async def tenant(database: Database) -> str:
    return (await Tenants(database).create("acme", actor="test")).id


async def add(
    database: Database,
    tenant_id: str,
    ended: float | None,
    outcome: dict[str, object] | None,
    took: float = 1.0,
) -> None:
    def insert(session: Session) -> None:
        row = RunRow(**row_values(new_run(new_id(), NewRun(tenant_id, {}), now=0.0)))
        if ended is not None:
            row.state, row.outcome = RunState.FINISHED, outcome
            row.started_at, row.finished_at = ended - took, ended
        session.add(row)

    await database.write(Change.RUN_SUBMIT, insert)


async def test_runs_are_counted_in_steps_and_by_how_they_ended(database: Database, tenant: str) -> None:
    endings: list[tuple[float, dict[str, object]]] = [
        (99.0, GOOD),
        (101.0, GOOD),
        (149.0, {"type": "exited", "code": 1}),
        (151.0, {"type": "stopped", "reason": "cancelled"}),
        (152.0, {"type": "stopped", "reason": "memory"}),
        (153.0, {"type": "sandbox_error", "code": "x", "message": "y"}),
    ]
    for ended, outcome in endings:
        await add(database, tenant, ended, outcome, took=ended - 100)
    await add(database, tenant, None, None)
    counted = await tally(database, since=100.0, step_seconds=50.0, tenant_id=tenant)
    assert counted == RunTally({0: 2, 1: 3}, {0: 1, 1: 2}, (1.0, 49.0, 51.0, 52.0, 53.0))


async def test_a_tenant_sees_its_own_runs_and_an_admin_all(database: Database, tenant: str) -> None:
    other = (await Tenants(database).create("other", actor="test")).id
    await add(database, other, 101.0, GOOD)
    look = partial(tally, database, since=100.0, step_seconds=50.0)
    assert (await look(tenant_id=tenant)).ended == {}
    assert (await look(tenant_id=None)).ended == {0: 1}
    assert await ended_of(database, since=100.0) == {other: 1}


async def test_a_run_that_never_began_took_no_time(database: Database, tenant: str) -> None:
    def insert(session: Session) -> None:
        row = RunRow(**row_values(new_run(new_id(), NewRun(tenant, {}), now=0.0)))
        row.state, row.outcome, row.finished_at = RunState.FINISHED, GOOD, 120.0
        session.add(row)

    await database.write(Change.RUN_SUBMIT, insert)
    counted = await tally(database, since=100.0, step_seconds=50.0, tenant_id=tenant)
    assert (counted.ended, counted.seconds) == ({0: 1}, ())
