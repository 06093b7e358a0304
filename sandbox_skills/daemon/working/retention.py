"""What the daemon tidies while it lives: old records and artifacts go, runs of nodes that fell silent end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox_skills.daemon.truth.retention import RecordAges, Records
from sandbox_skills.daemon.truth.run import sandbox_failed
from sandbox_skills.daemon.truth.tenants import Tenants
from sandbox_skills.errors import SandboxSkillsError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox_skills.artifacts import ArtifactStore, RetentionPolicy
    from sandbox_skills.daemon.dispatch.base import RunQueue
    from sandbox_skills.daemon.truth.database import Database
    from sandbox_skills.daemon.truth.run import Finished

logger = logging.getLogger(__name__)

Job = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Every:
    """A job, and the seconds from its end to its next start."""

    seconds: float
    job: Job


def node_lost() -> Finished:
    """Returns how a run ended whose node has said nothing for longer than its lease."""
    return sandbox_failed(
        "sandbox_lost",
        "the process that worked on the run has said nothing for too long; what it did by then is unknown",
        reason="node_lost",
    )


def retention_jobs(
    database: Database,
    queue: RunQueue,
    store: ArtifactStore,
    *,
    ages: RecordAges,
    artifacts: RetentionPolicy,
) -> dict[str, Every]:
    """Returns the jobs by name: silent nodes every 10 s, records every minute, artifacts every hour."""

    async def silent_nodes() -> None:
        await queue.expire(node_lost())

    async def records() -> None:
        await Records(database).retain(ages)

    async def old_artifacts() -> None:
        for tenant in await Tenants(database).list():
            await store.retain(artifacts, tenant=tenant.id)

    return {
        "silent nodes": Every(10.0, silent_nodes),
        "records": Every(60.0, records),
        "artifacts": Every(3600.0, old_artifacts),
    }


async def keep_tidy(jobs: Mapping[str, Every]) -> None:
    """Does each job again and again until it is cancelled; one that fails is logged and tried again in its time."""
    async with asyncio.TaskGroup() as group:
        for name, every in jobs.items():
            group.create_task(_again(name, every), name=f"job {name}")


async def _again(name: str, every: Every) -> None:
    while True:
        try:
            await every.job()
        except SandboxSkillsError as error:
            logger.warning("the job %r failed: %s", name, error.message)
        await asyncio.sleep(every.seconds)
