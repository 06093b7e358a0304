"""What a daemon does before it takes anything: what the one before it left is brought to an end.

It holds the data directory (`sole_daemon`), so whatever the database says is going is not. Each step can be done
again: a process that dies here leaves the rest to the next one.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox_skills.daemon.truth.audit import AuditTrail, Deed
from sandbox_skills.daemon.truth.run import restarted
from sandbox_skills.daemon.truth.sessions import Sessions, SessionState
from sandbox_skills.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandbox_skills.daemon.dispatch.base import NodeRegistry, RunQueue
    from sandbox_skills.daemon.truth.database import Database
    from sandbox_skills.daemon.truth.run import Run
    from sandbox_skills.daemon.truth.sessions import Session
    from sandbox_skills.engines.base import Engine

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was brought to an end: runs, sessions that lost their box, and how many boxes that nobody owned."""

    runs: Sequence[Run] = ()
    sessions: Sequence[Session] = ()
    sandboxes: int = 0


async def recover(database: Database, queue: RunQueue, nodes: NodeRegistry, engine: Engine) -> Recovered:
    """Ends what was going; queued runs stay queued. Raises DatabaseError.

    An engine that does not answer is logged: its boxes are reaped when it is back, by their labels.
    """
    runs = await queue.abandon(restarted())
    sessions = await Sessions(database).lose()
    for state in await nodes.nodes():
        await nodes.leave(state.node.id)
    sandboxes = await _reaped(engine)
    recovered = Recovered(runs, sessions, sandboxes)
    await _told(database, recovered)
    return recovered


async def _reaped(engine: Engine) -> int:
    try:
        return len(await engine.reap(()))
    except EngineError as error:
        logger.warning("sandboxes of the daemon before this one may be left: %s", error.message)
        return 0


async def _told(database: Database, recovered: Recovered) -> None:
    """Writes down what ended, unless nothing did."""
    if not (recovered.runs or recovered.sessions or recovered.sandboxes):
        return
    detail = {
        "runs": [run.id for run in recovered.runs],
        "sessions": [one.id for one in recovered.sessions if one.state is SessionState.CLOSED],
        "sandboxes": recovered.sandboxes,
    }
    await AuditTrail(database).record(Deed("daemon", "daemon.recover", "daemon", detail=detail))
