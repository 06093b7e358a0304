"""The database: one file of SQLite in write-ahead mode, changed by one transaction at a time.

A transaction is a plain function of a connection, or of a session over one, and runs whole in one thread: with an
asynchronous driver each statement goes to a thread and back several times, which made a transaction three times as
dear. Many may read while one writes. Writers of this process wait for each other in a queue, without polling; those of
another process (the command line beside a daemon) wait in SQLite. A thread keeps its connection: to take one from a
pool costs more than a short transaction.

What is brief is done by the loop's own thread where nobody else writes just then: the way to another thread and back
takes as long as half of it, and a connection reads again from the disk's cache what another one has changed. It never
waits there, neither for a lock nor for a disk.

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
from dataclasses import dataclass
from functools import partial
from sqlite3 import SQLITE_BUSY
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
"""Threads that read, each with a connection; a read takes less than a millisecond."""

BRIEF_IN_A_ROW = 100
"""Brief changes that the loop's own thread does before the other one does some, which writes the log back into the file
when it has a thousand pages: a run is two changes of about ten pages each."""

BY_THE_THREAD = 2
"""The one that finds the log long enough, and the one that begins it anew: SQLite waits for the disk in both."""

DATABASE_FILE = "daemon.db"
"""Its name in the data directory."""


@dataclass(frozen=True, slots=True)
class Engines:
    """Of one file: for threads that read, for the one that writes, and for the loop's own, which does both."""

    reader: Engine
    writer: Engine
    own: Engine
    durable: bool


class Database:
    """The tables, to be read and changed in transactions. `clock` gives the seconds that rows are dated with.

    A cancel while a transaction runs ends the wait, not the transaction: that is done whole or not at all.
    """

    def __init__(self, engines: Engines, *, clock: Callable[[], float], faults: FaultHook) -> None:
        self._reader = _Connections(engines.reader, begin="BEGIN")
        self._writer = _Connections(engines.writer, begin="BEGIN IMMEDIATE")
        self._own = _Connections(engines.own, begin="BEGIN IMMEDIATE")
        self._durable = engines.durable
        self._brief = 0
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
        return self._own.with_own(partial(statement.first, values=values))

    async def write(self, change: Change, function: Callable[[Session], T]) -> T:
        """Does what `function` does, committed when this returns; where it raises, nothing of it is kept.

        Raises DatabaseError, and IntegrityError of SQLAlchemy for rows that the tables do not take.
        """
        return await self.transact(change, partial(_in_session, function))

    def transact(
        self, change: Change, function: Callable[[Connection], T], *, brief: bool = False
    ) -> asyncio.Future[T]:
        """Does what `write` does for a function that needs no session, which costs as much as some statements.

        One that is `brief` takes no longer than some of them, and may be done before this returns.
        """
        self._brief += brief
        at_once = brief and self._is_free() and self._at_once(change, function)
        return at_once or self._write_thread.run(partial(self._transact, self._writer, change, function))

    def _is_free(self) -> bool:
        """Whether it is worth a try to write at once; `durable` changes wait for the disk each time."""
        in_a_row = self._brief % (BRIEF_IN_A_ROW + BY_THE_THREAD)
        return self._write_thread.is_idle and not self._durable and in_a_row < BRIEF_IN_A_ROW

    def _at_once(self, change: Change, function: Callable[[Connection], T]) -> asyncio.Future[T] | None:
        """Returns what came of it; None where another process writes, and nothing was done."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        try:
            future.set_result(self._transact(self._own, change, function))
        except DatabaseError as error:
            if _is_busy(error.__cause__):
                return None
            future.set_exception(error)
        except Exception as error:  # noqa: BLE001  # as from the thread, it is for who waits
            future.set_exception(error)
        return future

    def _read(self, function: Callable[[Session], T]) -> T:
        return self._reader.transaction(partial(_in_session, function))

    def _transact(self, connections: _Connections, change: Change, function: Callable[[Connection], T]) -> T:
        def whole(connection: Connection) -> T:
            self._faults(change, Boundary.BEGIN)
            result = function(connection)
            self._faults(change, Boundary.COMMIT)
            return result

        result = connections.transaction(whole)
        self._faults(change, Boundary.DONE)
        return result

    def close(self) -> None:
        """Waits for transactions that were begun, and ends every connection."""
        self._write_thread.close()
        self._read_threads.shutdown()
        for connections in (self._reader, self._writer, self._own):
            connections.close()


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
            except DBAPIError as error:
                if not _is_busy(error):
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
    engines = Engines(
        reader=_engine(path, connections=READERS, durable=durable),
        writer=_engine(path, connections=1, durable=durable),
        own=_engine(path, connections=1, durable=durable, waits=False),
        durable=durable,
    )
    database = Database(engines, clock=clock, faults=faults)
    try:
        await asyncio.to_thread(_upgraded, engines.writer)
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


def _engine(path: Path, *, connections: int, durable: bool, waits: bool = True) -> Engine:
    """Returns an engine whose connections begin no transaction by themselves.

    One that does not wait gives up at once where another connection writes, and leaves the log as long as it is.
    """
    engine = create_engine(
        f"sqlite:///{path}",
        pool_size=connections,
        max_overflow=0,
        connect_args={"timeout": BUSY_SECONDS if waits else 0, "check_same_thread": False},
    )

    def connected(connection: Any, _record: object) -> None:  # noqa: ANN401  # SQLAlchemy types no driver's
        connection.isolation_level = None  # the driver would begin where it likes
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        connection.execute("PRAGMA foreign_keys = ON")
        if not waits:
            connection.execute("PRAGMA wal_autocheckpoint = 0")

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


def _is_busy(error: BaseException | None) -> bool:
    """Whether a change was not begun because somebody else's is under way: the only thing that waits in this mode."""
    return isinstance(error, DBAPIError) and getattr(error.orig, "sqlite_errorcode", None) == SQLITE_BUSY


def _told(engine: Engine, error: DBAPIError) -> Exception:
    """Translates what the driver says, once; but not of a value that the tables do not take."""
    if isinstance(error, IntegrityError):
        return error
    return DatabaseError(
        f"the database {engine.url.database} cannot be used: {error.orig}",
        hint="look at the rights and the free space of its directory, and whether another program holds it",
    )
