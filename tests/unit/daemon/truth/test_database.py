from __future__ import annotations

import asyncio
import sqlite3
import stat
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import bindparam, column, create_engine, insert, select, table, text, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from sandbox_skills.daemon.errors import DatabaseError
from sandbox_skills.daemon.truth.changes import Boundary, Change
from sandbox_skills.daemon.truth.database import BRIEF_IN_A_ROW, BY_THE_THREAD, opened_database
from sandbox_skills.daemon.truth.prepared import Prepared
from sandbox_skills.daemon.truth.tables import TENANT, Table, TenantRow

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from sqlalchemy import Connection

    from sandbox_skills.daemon.truth.database import Database


pytestmark = pytest.mark.anyio


def add_tenant(session: Session) -> None:
    session.add(TenantRow(id="1", name="acme", limits={}, policy={}, created_at=1.0, disabled_at=None))


def turn(session: Session) -> int:
    return session.scalars(select(TenantRow.turn)).one()


def one_more(session: Session) -> None:
    session.execute(update(TenantRow).values(turn=turn(session) + 1))


def count(session: Session) -> int:
    return len(session.scalars(select(TenantRow.id)).all())


async def test_the_steps_lead_to_the_tables_that_the_code_has(tmp_path: Path) -> None:
    async with opened_database(tmp_path / "d.db"):
        pass
    engine = create_engine(f"sqlite:///{tmp_path / 'd.db'}")
    try:
        with engine.connect() as connection:
            assert compare_metadata(MigrationContext.configure(connection), Table.metadata) == []
    finally:
        engine.dispose()


async def test_what_was_written_is_there_when_it_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "data" / "d.db"
    async with opened_database(path) as database:
        await database.write(Change.TENANT_CREATE, add_tenant)
    async with opened_database(path) as database:
        assert await database.read(count) == 1


async def test_the_file_and_those_beside_it_are_this_users_alone(tmp_path: Path) -> None:
    async with opened_database(tmp_path / "data" / "d.db") as database:
        await database.write(Change.TENANT_CREATE, add_tenant)
        files = list((tmp_path / "data").iterdir())
        assert len(files) == 3
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


async def test_a_change_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    def fail(session: Session) -> None:
        add_tenant(session)
        session.flush()
        raise ValueError("no")

    async with opened_database(tmp_path / "d.db") as database:
        with pytest.raises(ValueError, match="no"):
            await database.write(Change.TENANT_CREATE, fail)
        assert await database.read(count) == 0


async def test_a_change_by_statements_alone_is_whole_or_undone(tmp_path: Path) -> None:
    def add(connection: Connection) -> None:
        connection.execute(insert(TENANT).values(id="1", name="acme", limits={}, policy={}, created_at=1.0))

    def fail(connection: Connection) -> None:
        add(connection)
        raise ValueError("no")

    async with opened_database(tmp_path / "d.db") as database, opened_database(tmp_path / "d.db") as other:
        for change in (fail, add, add):
            with suppress(ValueError, IntegrityError):
                await database.transact(Change.TENANT_CREATE, change)
            assert await other.read(count) == (change is add)
        await other.write(Change.TENANT_UPDATE, one_more)
        await database.transact(Change.TENANT_UPDATE, lambda connection: connection.execute(text("select 1")))
        assert await database.read(turn) == 1


async def test_changes_of_two_processes_wait_for_each_other(tmp_path: Path) -> None:
    async with opened_database(tmp_path / "d.db") as one, opened_database(tmp_path / "d.db") as other:
        await one.write(Change.TENANT_CREATE, add_tenant)
        await asyncio.gather(*(each.write(Change.TENANT_UPDATE, one_more) for each in [one, other] * 25))
        assert await one.read(turn) == 50


async def test_a_cancel_leaves_a_change_whole_or_undone_and_the_database_usable(tmp_path: Path) -> None:
    async with opened_database(tmp_path / "d.db") as database:
        await database.write(Change.TENANT_CREATE, add_tenant)
        tasks = [asyncio.ensure_future(database.write(Change.TENANT_UPDATE, one_more)) for _ in range(20)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        done = sum(result is None for result in results)
        assert done <= await database.read(turn) <= 20


async def test_a_row_that_refers_to_nothing_is_refused(tmp_path: Path) -> None:
    async with opened_database(tmp_path / "d.db") as database:
        assert await database.read(lambda session: session.scalar(text("PRAGMA foreign_keys"))) == 1


@pytest.mark.parametrize(("durable", "level"), [(False, 1), (True, 2)])
async def test_each_change_waits_for_the_disk_where_it_is_to_outlive_a_power_cut(
    tmp_path: Path, *, durable: bool, level: int
) -> None:
    async with opened_database(tmp_path / "d.db", durable=durable) as database:
        told = await database.write(
            Change.TENANT_UPDATE, lambda session: session.scalar(text("PRAGMA synchronous"))
        )
    assert told == level


async def test_a_thread_goes_on_after_a_fault_of_the_driver(tmp_path: Path) -> None:
    async with opened_database(tmp_path / "d.db") as database:
        with pytest.raises(DatabaseError, match="no such table"):
            await database.write(Change.TENANT_UPDATE, lambda session: session.execute(text("drop table x")))
        with pytest.raises(DatabaseError, match="no such table"):
            database.look(Prepared(select(column("a")).select_from(table("x"))))
        await database.write(Change.TENANT_CREATE, add_tenant)
        assert await database.read(count) == 1


async def test_a_look_sees_what_was_written_a_moment_ago(tmp_path: Path) -> None:
    statement = Prepared(select(TenantRow.turn).where(TenantRow.id == bindparam("tenant")))
    async with opened_database(tmp_path / "d.db") as database:
        assert database.look(statement, tenant="1") is None
        await database.write(Change.TENANT_CREATE, add_tenant)
        for number in range(3):
            changed = update(TenantRow).values(turn=number)
            await database.write(Change.TENANT_UPDATE, partial(Session.execute, statement=changed))
            assert database.look(statement, tenant="1") == (number,)


async def test_a_file_that_is_no_database_is_told_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "d.db").write_bytes(b"no database" * 100)
    with pytest.raises(DatabaseError, match=r"d\.db cannot be used: file is not a database"):
        async with opened_database(tmp_path / "d.db"):
            pass


async def test_a_directory_without_rights_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DatabaseError, match="cannot be opened") as caught:
        async with opened_database(tmp_path / "file" / "d.db"):
            pass
    assert "data_dir" in caught.value.hint


async def test_a_database_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    async with opened_database(tmp_path / "d.db") as database:
        await database.write(
            Change.TENANT_CREATE,
            lambda session: session.execute(text("update alembic_version set version_num = '9999'")),
        )
    with pytest.raises(DatabaseError, match="another version"):
        async with opened_database(tmp_path / "d.db"):
            pass


async def test_the_hook_is_called_at_each_boundary_of_a_change(tmp_path: Path) -> None:
    seen: list[tuple[Change, Boundary]] = []
    async with opened_database(
        tmp_path / "d.db", faults=lambda change, boundary: seen.append((change, boundary))
    ) as database:
        await database.write(Change.TENANT_CREATE, add_tenant)
        await database.read(count)
    assert seen == [(Change.TENANT_CREATE, boundary) for boundary in Boundary]


def marked(connection: Connection) -> str:
    """Counts a tenant's turn, and returns the thread in which that was done."""
    connection.execute(update(TENANT).values(turn=TENANT.c.turn + 1))
    return threading.current_thread().name


HERE = threading.current_thread().name


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    async with opened_database(tmp_path / "d.db") as database:
        await database.write(Change.TENANT_CREATE, add_tenant)
        await idle(database)
        yield database


async def idle(database: Database) -> None:
    while not database._write_thread.is_idle:  # noqa: ASYNC110  # a thread sets no event of this loop
        await asyncio.sleep(0.001)


async def test_a_brief_change_is_done_at_once(database: Database) -> None:
    done = database.transact(Change.RUN_SUBMIT, marked, brief=True)
    assert done.done()
    assert done.result() == HERE
    assert await database.read(turn) == 1


async def test_a_brief_change_that_fails_leaves_nothing_behind(database: Database) -> None:
    def fail(connection: Connection) -> None:
        marked(connection)
        raise ValueError("no")

    def wrong(connection: Connection) -> None:
        marked(connection)
        connection.execute(text("drop table x"))

    with pytest.raises(ValueError, match="no"):
        await database.transact(Change.RUN_SUBMIT, fail, brief=True)
    with pytest.raises(DatabaseError, match="no such table"):
        await database.transact(Change.RUN_SUBMIT, wrong, brief=True)
    assert await database.read(turn) == 0
    assert await database.transact(Change.RUN_SUBMIT, marked, brief=True) == HERE


async def test_a_brief_change_waits_elsewhere_for_one_of_another_process(
    database: Database, tmp_path: Path
) -> None:
    other = sqlite3.connect(tmp_path / "d.db", isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        waiting = database.transact(Change.RUN_SUBMIT, marked, brief=True)
        assert not waiting.done()
        assert database.look(TURN) == (0,)
        other.execute("UPDATE tenant SET turn = 10")
        other.execute("COMMIT")
        assert await waiting != HERE
    finally:
        other.close()
    assert database.look(TURN) == (11,)
    await idle(database)
    assert await database.transact(Change.RUN_SUBMIT, marked, brief=True) == HERE


TURN = Prepared(select(TENANT.c.turn))


async def test_a_brief_change_comes_behind_those_that_were_asked_for_before(database: Database) -> None:
    begun, release = threading.Event(), threading.Event()

    def slow(connection: Connection) -> None:
        begun.set()
        release.wait(10)
        marked(connection)

    first = database.transact(Change.RETENTION, slow)
    brief = database.transact(Change.RUN_SUBMIT, marked, brief=True)
    await asyncio.to_thread(begun.wait)
    assert not brief.done()
    release.set()
    await first
    assert await brief != HERE
    assert await database.read(turn) == 2


async def test_a_brief_change_that_is_to_outlive_a_power_cut_does_not_hold_up_the_loop(
    tmp_path: Path,
) -> None:
    async with opened_database(tmp_path / "d.db", durable=True) as database:
        await database.write(Change.TENANT_CREATE, add_tenant)
        await idle(database)
        assert await database.transact(Change.RUN_SUBMIT, marked, brief=True) != HERE


async def test_brief_changes_let_the_log_be_written_back(database: Database, tmp_path: Path) -> None:
    def wide(connection: Connection) -> str:
        connection.execute(update(TENANT).values(limits={"x": "y" * 40_000}, turn=TENANT.c.turn + 1))
        return threading.current_thread().name

    where = list[str]()
    for _ in range(10 * BRIEF_IN_A_ROW):
        where.append(await database.transact(Change.RUN_SUBMIT, wide, brief=True))
        await idle(database)
    assert 0 < sum(name != HERE for name in where) <= 10 * BY_THE_THREAD
    pages = 3 * BRIEF_IN_A_ROW * 40_000
    assert (tmp_path / "d.db-wal").stat().st_size < pages


async def test_a_brief_change_of_a_database_that_is_closed_is_refused(tmp_path: Path) -> None:
    async with opened_database(tmp_path / "d.db") as database:
        pass
    with pytest.raises(RuntimeError, match="closed"):
        database.transact(Change.RUN_SUBMIT, marked, brief=True)


async def test_the_hook_is_called_at_each_boundary_of_a_brief_change(tmp_path: Path) -> None:
    seen: list[tuple[Change, Boundary]] = []
    async with opened_database(
        tmp_path / "d.db", faults=lambda change, boundary: seen.append((change, boundary))
    ) as database:
        await database.transact(Change.RUN_SUBMIT, marked, brief=True)
    assert seen == [(Change.RUN_SUBMIT, boundary) for boundary in Boundary]
