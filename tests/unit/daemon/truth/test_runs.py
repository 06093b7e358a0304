from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.daemon.dispatch.base import Accepted
from sandbox_skills.daemon.dispatch.bell import Bell
from sandbox_skills.daemon.dispatch.sql_queue import SqlRunQueue
from sandbox_skills.daemon.errors import RunNotFoundError
from sandbox_skills.daemon.truth.run import BRIEF_CHARS, NewRun, RunKind, RunState, SkillRef, is_brief
from sandbox_skills.daemon.truth.runs import Runs

if TYPE_CHECKING:
    from sandbox_skills.daemon.truth.database import Database
    from sandbox_skills.daemon.truth.run import Run
    from sandbox_skills.daemon.truth.tenants import Tenant

pytestmark = pytest.mark.anyio


async def submitted(database: Database, tenant: Tenant, **changes: object) -> Run:
    new = replace(NewRun(tenant.id, {}, SkillRef("echo")), **changes)  # type: ignore[arg-type]
    accepted = await SqlRunQueue(database, Bell()).submit(new)
    assert isinstance(accepted, Accepted)
    return accepted.run


async def test_a_run_is_its_tenants(database: Database, tenant: Tenant) -> None:
    mine = await submitted(database, tenant)
    assert await Runs(database).get(mine.id, tenant_id=tenant.id) == mine
    for run_id, tenant_id in ((mine.id, "other"), ("nothing", tenant.id)):
        with pytest.raises(RunNotFoundError):
            await Runs(database).get(run_id, tenant_id=tenant_id)


async def test_the_newest_are_listed_first_by_pages(database: Database, tenant: Tenant) -> None:
    made = [(await submitted(database, tenant)).id for _ in range(3)]
    runs = Runs(database)
    assert [run.id for run in await runs.list(tenant_id=tenant.id, limit=2)] == [made[2], made[1]]
    assert [run.id for run in await runs.list(tenant_id=tenant.id, before=made[1])] == [made[0]]
    assert await runs.list(tenant_id="other") == []
    assert len(await runs.list(tenant_id=None)) == 3


async def test_a_list_is_narrowed(database: Database, tenant: Tenant) -> None:
    echo = await submitted(database, tenant)
    other = await submitted(database, tenant, skill=SkillRef("other"), kind=RunKind.AGENT)
    await SqlRunQueue(database, Bell()).cancel(echo.id, tenant_id=tenant.id)
    runs = Runs(database)
    assert [run.id for run in await runs.list(tenant_id=tenant.id, skill="echo")] == [echo.id]
    assert [run.id for run in await runs.list(tenant_id=tenant.id, kind=RunKind.AGENT)] == [other.id]
    assert [run.id for run in await runs.list(tenant_id=tenant.id, state=RunState.FINISHED)] == [echo.id]
    assert await runs.list(tenant_id=tenant.id, session_id="s") == []


@pytest.mark.parametrize(
    "told",
    [
        "x" * (BRIEF_CHARS + 1),
        {"stdout": "x" * BRIEF_CHARS, "stderr": "x"},
        {"files": [{"content": "x" * BRIEF_CHARS}, {"content": "x"}]},
        ["x"] * (BRIEF_CHARS + 1),
    ],
)
def test_what_is_long_is_not_brief(told: object) -> None:
    assert not is_brief(told)
    assert is_brief({"stdout": "x" * BRIEF_CHARS, "code": 0, "none": None}, None, [])
