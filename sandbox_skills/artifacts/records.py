"""The questions that are asked of a tenant's records, and the changes to them: one function, one statement or two."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.artifacts.store import Artifact, Usage

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

REMEMBERED_NAMES = 10_000
"""Names without artifacts whose next version is remembered: about 1 MB, at most 10, whatever a tenant does."""

_COLUMNS = "name, version, mime_type, size, sha256, skill, skill_digest, run_id, created"
_LATEST = "version = (SELECT max(version) FROM artifacts AS other WHERE other.name = artifacts.name)"


def find(connection: sqlite3.Connection, name: str, version: int | None) -> Artifact | None:
    """Returns one version, the latest for None."""
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM artifacts WHERE name = ?1 AND (?2 IS NULL OR version = ?2)"  # noqa: S608  # constants
        " ORDER BY version DESC LIMIT 1",
        (name, version),
    ).fetchone()
    return Artifact(*row) if row else None


def versions(connection: sqlite3.Connection, name: str) -> list[Artifact]:
    """Returns every version of a name, oldest first."""
    return _select(connection, "WHERE name = ? ORDER BY version", (name,))


def everything(connection: sqlite3.Connection) -> list[Artifact]:
    """Returns all there is."""
    return _select(connection, "", ())


def page(
    connection: sqlite3.Connection,
    prefix: str,
    after: tuple[str, int],
    *,
    all_versions: bool,
    limit: int,
) -> list[Artifact]:
    """Returns at most `limit` artifacts behind `after`, by name and version, whose names start with `prefix`."""
    # The lower bound uses the key; the upper one has no simple spelling, and the order ends the search.
    return _select(
        connection,
        "WHERE name >= ?1 AND substr(name, 1, ?2) = ?1 AND (name, version) > (?3, ?4)"
        f"{'' if all_versions else f' AND {_LATEST}'} ORDER BY name, version LIMIT ?5",
        (prefix, len(prefix), *after, limit),
    )


def usage(connection: sqlite3.Connection) -> Usage:
    """Returns how much there is."""
    kept = "SELECT count(DISTINCT name), count(*), coalesce(sum(size), 0) FROM artifacts"
    stored = "SELECT coalesce(sum(size), 0) FROM (SELECT DISTINCT sha256, size FROM artifacts)"
    return Usage(*connection.execute(kept).fetchone(), *connection.execute(stored).fetchone())


def take_version(connection: sqlite3.Connection, name: str) -> int:
    """Returns the next version of a name, and counts it as given."""
    row = connection.execute(
        "INSERT INTO names (name, next_version) VALUES (?, 1)"
        " ON CONFLICT (name) DO UPDATE SET next_version = next_version + 1, emptied = NULL"
        " RETURNING next_version - 1",
        (name,),
    ).fetchone()
    version: int = row[0]
    return version


def insert(connection: sqlite3.Connection, artifact: Artifact) -> None:
    """Adds one version: with the end of the transaction the artifact is there."""
    values = tuple(getattr(artifact, column) for column in _COLUMNS.split(", "))
    marks = ", ".join("?" * len(values))
    connection.execute(f"INSERT INTO artifacts ({_COLUMNS}) VALUES ({marks})", values)  # noqa: S608  # constants


def remove(connection: sqlite3.Connection, artifacts: Iterable[Artifact], *, now: float) -> None:
    """Removes versions, and forgets the names that were emptied longest ago where there are too many."""
    keys = [(artifact.name, artifact.version) for artifact in artifacts]
    connection.executemany("DELETE FROM artifacts WHERE name = ? AND version = ?", keys)
    connection.executemany(
        "UPDATE names SET emptied = ?1 WHERE name = ?2 AND NOT EXISTS (SELECT 1 FROM artifacts WHERE name = ?2)",
        [(now, name) for name in {name for name, _ in keys}],
    )
    connection.execute(
        "DELETE FROM names WHERE name IN (SELECT name FROM names WHERE emptied IS NOT NULL"
        " ORDER BY emptied DESC, name LIMIT -1 OFFSET ?)",
        (REMEMBERED_NAMES,),
    )


def unused(connection: sqlite3.Connection, digests: Iterable[str]) -> list[str]:
    """Returns those of the digests that no artifact has."""
    query = "SELECT 1 FROM artifacts WHERE sha256 = ?"
    return [digest for digest in digests if connection.execute(query, (digest,)).fetchone() is None]


def _select(connection: sqlite3.Connection, rest: str, values: Sequence[str | int]) -> list[Artifact]:
    rows = connection.execute(f"SELECT {_COLUMNS} FROM artifacts {rest}", values)  # noqa: S608  # constants
    return [Artifact(*row) for row in rows]
