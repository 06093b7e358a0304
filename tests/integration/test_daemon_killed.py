"""A daemon that is killed around any of its changes: the next one finds the truth, and goes on from it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import text

from sandbox_skills.artifacts import LocalArtifactStore
from sandbox_skills.daemon.access.keys import KeyRing
from sandbox_skills.daemon.dispatch.base import Accepted
from sandbox_skills.daemon.dispatch.bell import Bell
from sandbox_skills.daemon.dispatch.sql_events import SqlEventLog
from sandbox_skills.daemon.dispatch.sql_nodes import SqlNodeRegistry
from sandbox_skills.daemon.dispatch.sql_queue import SqlRunQueue
from sandbox_skills.daemon.errors import KeyInvalidError
from sandbox_skills.daemon.truth.agents import Agents
from sandbox_skills.daemon.truth.audit import AuditTrail
from sandbox_skills.daemon.truth.changes import Boundary, Change
from sandbox_skills.daemon.truth.database import opened_database
from sandbox_skills.daemon.truth.run import FINISHED, Finished, IdempotencyKey, NewRun, RunState
from sandbox_skills.daemon.truth.runs import Runs
from sandbox_skills.daemon.truth.sessions import Sessions, SessionState
from sandbox_skills.daemon.truth.tenants import Tenants
from sandbox_skills.daemon.working.recovery import Recovered, recover
from sandbox_skills.engines.fake import FakeEngine
from tests.integration.daemon_life import CONTENT, DATABASE, NODE, POINTS, TOLD, name_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from sandbox_skills.daemon.truth.database import Database
    from sandbox_skills.daemon.truth.run import Run

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(900)]

DONE = Finished({"type": "exited", "code": 0})


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    """A folder for each life, and how each ended."""
    root = tmp_path_factory.mktemp("lives")
    program = Path(__file__).with_name("daemon_life.py")
    done = subprocess.run(
        [sys.executable, program, root], check=True, capture_output=True, text=True, cwd=Path.cwd()
    )
    return root, json.loads(done.stdout)


@pytest.fixture(params=POINTS, ids=lambda point: name_of(*point))
async def after(
    request: pytest.FixtureRequest, lives: tuple[Path, dict[str, int]]
) -> AsyncIterator[tuple[Path, Database]]:
    """The folder of a life that was killed, and its database in this process."""
    folder = lives[0] / name_of(*request.param)
    assert lives[1][folder.name] == -signal.SIGKILL, "the life ended otherwise: is its change in it?"
    async with opened_database(folder / DATABASE) as database:
        yield folder, database


def told(folder: Path, what: str) -> list[dict[str, Any]]:
    path = folder / TOLD
    lines = path.read_text().splitlines() if path.exists() else []
    return [fact for fact in map(json.loads, lines) if fact["what"] == what]


async def all_runs(database: Database) -> Sequence[Run]:
    return await Runs(database).list(tenant_id=None)


async def check_database(database: Database) -> None:
    """The file is whole, and so is the audit log."""
    whole = await database.read(lambda session: session.scalar(text("PRAGMA integrity_check")))
    broken = await database.read(lambda session: session.execute(text("PRAGMA foreign_key_check")).all())
    assert (whole, broken) == ("ok", [])
    await AuditTrail(database).verify()


async def check_runs(database: Database) -> None:
    """No run is half of anything: its state, outcome and events say the same."""
    for run in await all_runs(database):
        events = await SqlEventLog(database, Bell()).read(run.id)
        assert [event.seq for event in events] == list(range(1, run.event_last + 1))
        is_over = run.state is RunState.FINISHED
        assert [event.kind == FINISHED for event in events] == [False] * (len(events) - 1) + [is_over]
        assert (run.outcome is not None) == is_over
        assert (run.finished_at is not None) == is_over


async def check_told(folder: Path, database: Database) -> None:
    """Whatever somebody was told is done, is."""
    runs = {run.id: run for run in await all_runs(database)}
    assert {fact["id"] for fact in told(folder, "run")} <= runs.keys()
    store = LocalArtifactStore(folder / "artifacts")
    for fact in told(folder, "finished"):
        run = runs[fact["id"]]
        assert run.outcome == fact["outcome"]
        for name in fact["artifacts"]:
            assert (await store.get(name, max_bytes=99, tenant=run.tenant_id))[1] == CONTENT
    for fact in told(folder, "event"):
        assert fact["seq"] <= runs[fact["run"]].event_last
    tenants = {tenant.id for tenant in await Tenants(database).list()}
    assert {fact["id"] for fact in told(folder, "tenant")} <= tenants
    for fact in told(folder, "agent"):
        await Agents(database).get(fact["id"])
    sessions = {one.id for one in await Sessions(database).list(tenant_id=None)}
    assert {fact["id"] for fact in told(folder, "session")} <= sessions


async def check_keys(folder: Path, database: Database) -> None:
    ring = KeyRing(database)
    for fact in told(folder, "key"):
        await ring.identify(fact["token"])
    for fact in told(folder, "revoked"):
        with pytest.raises(KeyInvalidError):
            await ring.identify(fact["token"])


async def check_start(folder: Path, database: Database) -> None:
    """The next daemon ends what was going, keeps what waited, and takes up work."""
    queue, nodes = SqlRunQueue(database, Bell()), SqlNodeRegistry(database)
    before = {run.id: run.state for run in await all_runs(database)}
    recovered = await recover(database, queue, nodes, FakeEngine())
    going = {run_id for run_id, state in before.items() if state is RunState.RUNNING}
    assert {run.id for run in recovered.runs} == going
    for run in await all_runs(database):
        if run.id in going:
            assert run.outcome is not None
            assert (run.outcome["type"], run.outcome["reason"]) == ("sandbox_error", "restarted")
    assert await nodes.nodes() == []
    assert await Sessions(database).list(tenant_id=None, state=SessionState.ACTIVE) == []
    assert await recover(database, queue, nodes, FakeEngine()) == Recovered([], [], 0)
    await check_work(folder, queue, before)


async def check_work(folder: Path, queue: SqlRunQueue, before: dict[str, RunState]) -> None:
    for fact in told(folder, "run"):
        new = NewRun(fact["tenant"], {}, idempotency=IdempotencyKey(fact["key"], "body"))
        again = await queue.submit(new)
        assert isinstance(again, Accepted)
        assert (again.replayed, again.run.id) == (True, fact["id"])
    waited = {run_id for run_id, state in before.items() if state is RunState.QUEUED}
    leases = await queue.claim(NODE, slots=8)
    assert {lease.run.id for lease in leases} == waited
    for lease in leases:
        await lease.complete(DONE)
    assert (await queue.depth()).queued == 0


async def test_the_next_daemon_finds_the_truth(after: tuple[Path, Database]) -> None:
    folder, database = after
    await check_database(database)
    await check_runs(database)
    await check_told(folder, database)
    await check_keys(folder, database)
    await check_start(folder, database)
    await check_runs(database)
    await check_database(database)


@pytest.mark.parametrize("change", Change)
async def test_a_change_is_there_only_once_it_was_committed(
    lives: tuple[Path, dict[str, int]], change: Change
) -> None:
    """Before the commit two lives leave the same, whether they died at the begin or with all written."""
    left = []
    for boundary in (Boundary.BEGIN, Boundary.COMMIT):
        async with opened_database(lives[0] / name_of(change, boundary) / DATABASE) as database:
            left.append([entry.action for entry in await AuditTrail(database).page()])
    assert left[0] == left[1]
