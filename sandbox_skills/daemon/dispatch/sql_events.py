"""The event log over the database of this process."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, select

from sandbox_skills.daemon.dispatch.sql_queue import run_bell
from sandbox_skills.daemon.errors import EventsLostError, RunNotFoundError
from sandbox_skills.daemon.truth.run import FINISHED, RunEvent, RunState
from sandbox_skills.daemon.truth.runs import event_of
from sandbox_skills.daemon.truth.tables import EVENT, RUN

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from sqlalchemy.orm import Session

    from sandbox_skills.daemon.dispatch.bell import Bell
    from sandbox_skills.daemon.truth.database import Database

PAGE = 500
"""Events of one read while following: a page of terminal output each, half a megabyte."""


class SqlEventLog:
    """An EventLog. `bell` is the queue's, which rings for what a lease adds."""

    def __init__(self, database: Database, bell: Bell) -> None:
        self._database = database
        self._bell = bell

    async def read(self, run_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[RunEvent]:
        work = partial(_read, run_id=run_id, after=after, limit=limit)
        return (await self._database.read(work))[0]

    async def follow(self, run_id: str, *, after: int = 0) -> AsyncGenerator[RunEvent]:
        with self._bell.listening(run_bell(run_id)) as heard:
            while True:
                heard.clear()
                work = partial(_read, run_id=run_id, after=after, limit=PAGE)
                events, is_over = await self._database.read(work)
                for event in events:
                    yield event
                    after = event.seq
                    if event.kind == FINISHED:
                        return
                if is_over and not events:
                    return
                if not events:
                    await heard.wait()


def _read(session: Session, run_id: str, after: int, limit: int) -> tuple[Sequence[RunEvent], bool]:
    """Returns events, and whether the run is over."""
    connection = session.connection()
    kept = connection.execute(_KEPT, {"run": run_id}).first()
    if kept is None:
        raise RunNotFoundError(f"there is no run {run_id[:80]!r}")
    first, last, state = kept
    if not first - 1 <= after <= last:
        raise EventsLostError(
            f"events {first} to {last} are kept, and what follows {after} was asked for",
            hint=f"read on after {first - 1}; the run itself tells how it ended",
            first=first,
            last=last,
        )
    rows = connection.execute(_BEHIND, {"run": run_id, "after": after, "most": limit})
    return [event_of(row) for row in rows], state == RunState.FINISHED


_KEPT = select(RUN.c.event_first, RUN.c.event_last, RUN.c.state).where(RUN.c.id == bindparam("run"))

_BEHIND = (
    select(*EVENT.c)
    .where(EVENT.c.run_id == bindparam("run"), EVENT.c.seq > bindparam("after"))
    .order_by(EVENT.c.seq)
    .limit(bindparam("most"))
)
