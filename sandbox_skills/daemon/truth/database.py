"""The database: one file of SQLite in write-ahead mode, changed by one transaction at a time.

A transaction is a plain function of a connection, or of a session over one, and runs whole in one thread: with an
asynchronous driver each statement goes to a thread and back several times, which made a transaction three times as
dear. Many may read while one writes. Writers of this process wait for each other in a queue, without polling; those of
another process (the command line beside a daemon) wait in SQLite. A thread keeps its connection: to take one from a
pool costs more than a short transaction.

`durable` False leaves the last moments before a power cut to the operating system, as SQLite advises for this mode:
a commit costs a twentieth of a millisecond instead of a disk's flush. A killed process loses nothing either way.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from alembic.util import CommandError
from sqlalchemy import create_engine, event
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.orm import Session

from sandbox_skills.daemon.errors import DatabaseError
from sandbox_skills.daemon.truth.changes import Boundary, Change, FaultHook, no_fault
from sandbox_skills.daemon.truth.migrations.upgrade import upgrade
from sandbox_skills.daemon.truth.prepared import Prepared, execute
from sandbox_skills.daemon.truth.serial_thread import SerialThread
from sandbox_skills.directories import make_private

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from pathlib import Path

    from sqlalchemy import Connection, Engine, Row

T = TypeVar("T")

BUSY_SECONDS = 10.0
"""How long a change waits for one of another process: the longest of ours (retention) takes a second."""

READERS = 4
"""Threads that read, each with a connection, as the loop's own has; a read takes less than a millisecond."""

DATABASE_FILE = "daemon.db"
"""Its name in the data directory."""


class Database:
    """The tables, to be read and changed in transactions. `clock` gives the seconds that rows are dated with.

    A cancel while a transaction runs ends the wait, not the transaction: that is done whole or not at all.
    """

    def __init__(
        self, reader: Engine, writer: Engine, *, clock: Callable[[], float], faults: FaultHook
    ) -> None:
        self._reader = _Connections(reader, begin="BEGIN")
        self._writer = _Connections(writer, begin="BEGIN IMMEDIATE")
        self._read_threads = ThreadPoolExecutor(READERS, "database-read")
        self._write_thread = SerialThread("database-write")
        self._faults = faults
        self.clock = clock

    async def read(self, function: Callable[[Session], T]) -> T:
        """Returns what `function` reads: what was true at its first statement. Raises DatabaseError."""
        return await asyncio.get_running_loop().run_in_executor(self._read_threads, self._read, function)

    def look(self, statement: Prepared, **values: object) -> Row[Any] | None:
        """Returns the first row of a statement, at once and in the caller's own thread: for what has a key.

        It begins no transaction, as one statement is whole by itself: it sees what was committed before it, and two
        looks may see what was committed between them. A reader waits for nobody in this mode, and the way to another
        thread and back takes longer than such a read. Raises DatabaseError.
        """
        return self._reader.with_own(partial(statement.first, values=values))

    async def write(self, change: Change, function: Callable[[Session], T]) -> T:
        """Does what `function` does, committed when this returns; where it raises, nothing of it is kept.

        Raises DatabaseError, and IntegrityError of SQLAlchemy for rows that the tables do not take.
        """
        return await self.transact(change, partial(_in_session, function))

    def transact(self, change: Change, function: Callable[[Connection], T]) -> asyncio.Future[T]:
        """Does what `write` does for a function that needs no session, which costs as much as some statements."""
        return self._write_thread.run(partial(self._transact, change, function))

    def _read(self, function: Callable[[Session], T]) -> T:
        return self._reader.transaction(partial(_in_session, function))

    def _transact(self, change: Change, function: Callable[[Connection], T]) -> T:
        def whole(connection: Connection) -> T:
            self._faults(change, Boundary.BEGIN)
            result = function(connection)
            self._faults(change, Boundary.COMMIT)
            return result

        result = self._writer.transaction(whole)
        self._faults(change, Boundary.DONE)
        return result

    def close(self) -> None:
        """Waits for transactions that were begun, and ends every connection."""
        self._write_thread.close()
        self._read_threads.shutdown()
        self._reader.close()
        self._writer.close()


def _in_transaction(begin: str, function: Callable[[Connection], T], connection: Connection) -> T:
    """Commits what a function does, or undoes it where it raises.

    By the driver alone: SQLAlchemy's own way costs as much as two statements, and is needed for nothing here.
    """
    execute(connection, begin, most=0)
    try:
        result = function(connection)
        execute(connection, "COMMIT", most=0)
    except BaseException:
        with suppress(DBAPIError):  # a driver that failed may have undone it already
            execute(connection, "ROLLBACK", most=0)
        raise
    finally:
        connection.rollback()  # SQLAlchemy's view of it, if it has one: the driver has nothing open any more
    return result


def _in_session(function: Callable[[Session], T], connection: Connection) -> T:
    connection.begin()  # for SQLAlchemy, so that the session does not end what it has not begun
    with Session(connection, expire_on_commit=False) as session:
        result = function(session)
        session.flush()
        return result


class _Connections:
    """One connection for each thread that uses it; after a fault of the driver the thread gets a new one."""

    def __init__(self, engine: Engine, *, begin: str) -> None:
        self._engine = engine
        self._begin = begin
        self._own = threading.local()
        self._open: set[Connection] = set()

    def transaction(self, function: Callable[[Connection], T]) -> T:
        """Calls it with the thread's own in a transaction, which is undone where it raises. Raises as `with_own`."""
        return self.with_own(partial(_in_transaction, self._begin, function))

    def with_own(self, function: Callable[[Connection], T]) -> T:
        """Calls it with the thread's own, in no transaction: each statement is one. Raises as `_told` says."""
        try:
            connection = self._mine()
            try:
                return function(connection)
            except DBAPIError:
                self._drop(connection)
                raise
        except DBAPIError as error:
            raise _told(self._engine, error) from error

    def _mine(self) -> Connection:
        kept: Connection | None = getattr(self._own, "connection", None)
        if kept is None:
            kept = self._own.connection = self._engine.connect()
            self._open.add(kept)
        return kept

    def _drop(self, connection: Connection) -> None:
        self._own.connection = None
        self._open.discard(connection)
        with suppress(DBAPIError):
            connection.close()

    def close(self) -> None:
        """Ends every connection, once no thread uses one any more."""
        for connection in self._open:
            connection.close()
        self._engine.dispose()


@asynccontextmanager
async def opened_database(
    path: Path,
    *,
    durable: bool = False,
    clock: Callable[[], float] = time.time,
    faults: FaultHook = no_fault,
) -> AsyncGenerator[Database]:
    """Opens the file, made and brought to this version's tables where needed; raises DatabaseError.

    It is this user's alone. Safe while another process does the same.
    """
    _prepare(path)
    reader = _engine(path, connections=READERS + 1, durable=durable)
    writer = _engine(path, connections=1, durable=durable)
    database = Database(reader, writer, clock=clock, faults=faults)
    try:
        await asyncio.to_thread(_upgraded, writer)
        yield database
    finally:
        database.close()


def _prepare(path: Path) -> None:
    try:
        make_private(path.parent)
        # SQLite gives the files beside it the mode of the first one.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    except OSError as error:
        raise DatabaseError(
            f"the database {path} cannot be opened: {error.strerror}",
            hint="look at the rights of that directory, or choose another data_dir",
        ) from error


def _engine(path: Path, *, connections: int, durable: bool) -> Engine:
    """Returns an engine whose connections begin no transaction by themselves."""
    engine = create_engine(
        f"sqlite:///{path}",
        pool_size=connections,
        max_overflow=0,
        connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False},
    )

    def connected(connection: Any, _record: object) -> None:  # noqa: ANN401  # SQLAlchemy types no driver's
        connection.isolation_level = None  # the driver would begin where it likes
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        connection.execute("PRAGMA foreign_keys = ON")

    event.listen(engine, "connect", connected)
    return engine


def _upgraded(writer: Engine) -> None:
    try:
        with writer.connect() as connection:
            _in_transaction("BEGIN IMMEDIATE", _with_all_steps, connection)
    except DBAPIError as error:
        raise _told(writer, error) from error
    except CommandError as error:
        raise DatabaseError(
            f"the database {writer.url.database} was made by another version: {error}",
            hint="run the version of sandbox-skills that made it, or a later one",
        ) from error


def _with_all_steps(connection: Connection) -> None:
    connection.begin()  # as for a session: alembic looks for one, too
    upgrade(connection)


def _told(engine: Engine, error: DBAPIError) -> Exception:
    """Translates what the driver says, once; but not of a value that the tables do not take."""
    if isinstance(error, IntegrityError):
        return error
    return DatabaseError(
        f"the database {engine.url.database} cannot be used: {error.orig}",
        hint="look at the rights and the free space of its directory, and whether another program holds it",
    )
