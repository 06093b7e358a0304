"""The SQLite file of one tenant's records: opened for each call, changed in transactions, its failures told.

The rollback journal is kept on purpose: with a connection for each call it is as fast as a write-ahead log, can be
read where nothing may be written, and needs no shared memory. A connection for each call survives a fork, and a
file that is restored or removed meanwhile. Nothing but SQLite may open the file: closing any descriptor of it would
drop the locks of every connection of this process.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from sandbox_skills.errors import ArtifactStoreError

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

VERSION = 1
"""Of the schema; a file with a higher one was written by a later program."""

BUSY_SECONDS = 30.0
"""Longest wait for other writers: a change takes milliseconds, so only a stuck one is waited for in vain."""

_SCHEMA = (
    # Outlives its artifacts, so that no version is given twice; `emptied` is when the last one went.
    "CREATE TABLE names (name TEXT PRIMARY KEY, next_version INTEGER NOT NULL, emptied REAL) STRICT, WITHOUT ROWID",
    "CREATE INDEX emptied_names ON names (emptied) WHERE emptied IS NOT NULL",
    (
        "CREATE TABLE artifacts (name TEXT NOT NULL, version INTEGER NOT NULL, mime_type TEXT NOT NULL,"
        " size INTEGER NOT NULL, sha256 TEXT NOT NULL, skill TEXT NOT NULL, skill_digest TEXT NOT NULL,"
        " run_id TEXT NOT NULL, created REAL NOT NULL, PRIMARY KEY (name, version)) STRICT, WITHOUT ROWID"
    ),
    "CREATE INDEX artifacts_by_content ON artifacts (sha256, size)",
)


@contextmanager
def reading(path: Path) -> Generator[sqlite3.Connection | None]:
    """Gives a connection, or None where there is no file. Raises ArtifactStoreError."""
    if not path.exists():
        yield None
        return
    with _connected(path, "rw") as connection:
        yield connection


@contextmanager
def writing(path: Path) -> Generator[sqlite3.Connection]:
    """Gives a connection in a transaction that ends with the block; nobody else writes meanwhile.

    The file is made where it is missing. Leaving by an error undoes all. Raises ArtifactStoreError.
    """
    with _connected(path, "rwc") as connection, _transaction(connection):
        yield connection


@contextmanager
def _connected(path: Path, mode: str) -> Generator[sqlite3.Connection]:
    try:
        with closing(
            sqlite3.connect(
                f"{path.as_uri()}?mode={mode}", uri=True, timeout=BUSY_SECONDS, isolation_level=None
            )
        ) as connection:
            connection.execute("PRAGMA synchronous = FULL")
            _prepare(connection, path)
            yield connection
    except sqlite3.Error as error:
        raise _failure(path, error) from error


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    if _version(connection) == 0:
        path.chmod(0o600)
        with _transaction(connection):
            # Another writer may have been first.
            if _version(connection) == 0:
                for statement in _SCHEMA:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {VERSION}")
    if _version(connection) > VERSION:
        raise ArtifactStoreError(
            f"the artifact records {path} were written by a later version", hint="update sandbox-skills"
        )


def _version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Generator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        # SQLite has ended the transaction itself after some failures.
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _failure(path: Path, error: sqlite3.Error) -> ArtifactStoreError:
    match getattr(error, "sqlite_errorcode", None):
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            hint = "restore the file from a backup, or move its whole directory away"
            return ArtifactStoreError(f"the artifact records {path} are damaged: {error}", hint=hint)
        case sqlite3.SQLITE_BUSY:
            return ArtifactStoreError(f"the artifact records {path} were in use for {BUSY_SECONDS:.0f} s")
        case _:
            return ArtifactStoreError(f"the artifact records {path} cannot be used: {error}")
