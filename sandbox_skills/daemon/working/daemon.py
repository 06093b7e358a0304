"""What lives while the server runs: the database, the engine, the queue, whoever works on it, and the services."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from anyio import to_thread

from sandbox_skills.daemon.access.keys import KeyRing
from sandbox_skills.daemon.access.limits import check_engine
from sandbox_skills.daemon.access.quotas import TenantQuotas, server_limits
from sandbox_skills.daemon.access.rates import RateLimiter
from sandbox_skills.daemon.access.scopes import ALL_SCOPES
from sandbox_skills.daemon.dispatch.base import Node
from sandbox_skills.daemon.dispatch.bell import Bell
from sandbox_skills.daemon.dispatch.ends import Ends
from sandbox_skills.daemon.dispatch.options import QueueOptions
from sandbox_skills.daemon.dispatch.sql_events import SqlEventLog
from sandbox_skills.daemon.dispatch.sql_nodes import SqlNodeRegistry
from sandbox_skills.daemon.dispatch.sql_queue import SqlRunQueue
from sandbox_skills.daemon.errors import DatabaseError, DrainingError, TenantExistsError
from sandbox_skills.daemon.service.admin import AdminService
from sandbox_skills.daemon.service.agent_models import AgentModels
from sandbox_skills.daemon.service.agents import AgentService
from sandbox_skills.daemon.service.kept_skills import KeptSkills
from sandbox_skills.daemon.service.runs import RunService, accepted_runs
from sandbox_skills.daemon.service.session_files import SessionFiles
from sandbox_skills.daemon.service.sessions import SessionService
from sandbox_skills.daemon.service.skill_folders import SkillFolders
from sandbox_skills.daemon.service.skills import SkillService
from sandbox_skills.daemon.service.talks import Talks
from sandbox_skills.daemon.service.tenant_skills import ServerSkills
from sandbox_skills.daemon.service.tools import ToolService
from sandbox_skills.daemon.truth.agents import Agents
from sandbox_skills.daemon.truth.database import DATABASE_FILE, opened_database
from sandbox_skills.daemon.truth.ids import new_id
from sandbox_skills.daemon.truth.keys import Keys
from sandbox_skills.daemon.truth.retention import DAY_SECONDS, RecordAges
from sandbox_skills.daemon.truth.run import RunKind
from sandbox_skills.daemon.truth.runs import Runs
from sandbox_skills.daemon.truth.sessions import Sessions
from sandbox_skills.daemon.truth.tenants import Tenants
from sandbox_skills.daemon.truth.tool_conversations import ToolConversations
from sandbox_skills.daemon.working.agent_events import AgentEvents
from sandbox_skills.daemon.working.agent_work import AgentWork
from sandbox_skills.daemon.working.endings import interrupted
from sandbox_skills.daemon.working.execution import SkillExecution
from sandbox_skills.daemon.working.mcp_servers import McpServers
from sandbox_skills.daemon.working.metrics import Metrics
from sandbox_skills.daemon.working.output_events import OutputEvents
from sandbox_skills.daemon.working.recovery import recover
from sandbox_skills.daemon.working.retention import Every, keep_tidy, retention_jobs
from sandbox_skills.daemon.working.sole import sole_daemon
from sandbox_skills.daemon.working.worker import Worker
from sandbox_skills.engines.cancellation import finish
from sandbox_skills.errors import SandboxSkillsError
from sandbox_skills.install.limits import FetchLimits
from sandbox_skills.wiring import catalog, opened
from sandbox_skills.wiring.tools import TOOLSETS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from sandbox_skills.artifacts import ArtifactStore
    from sandbox_skills.daemon.access.limits import TenantLimits
    from sandbox_skills.daemon.access.rates import Allowance
    from sandbox_skills.daemon.dispatch.base import EventLog, NodeRegistry, RunQueue
    from sandbox_skills.daemon.truth.database import Database
    from sandbox_skills.daemon.working.agent_work import Voice
    from sandbox_skills.engines.base import OutputSink
    from sandbox_skills.settings import Settings
    from sandbox_skills.wiring import Live

FIRST_TENANT = "admin"

SWEEP_SECONDS = 3_600.0
"""Between two looks for contents of deleted skills that runs needed until then."""

NOBODY = "nobody"
"""A tenant that has nothing: ids of tenants are no words."""

MCP_SECONDS = 60.0
"""Between two looks for MCP servers that nobody asks."""

TIDY_SECONDS = 5.0
"""Between two looks at sessions whose time is over, or whose box has gone."""

CHECK_SECONDS = 5.0
"""How long a part may take to say that it is well: those who ask give up after ten."""


@dataclass(slots=True)
class Daemon:
    """All that routes and jobs work with. Made by `opened_daemon`."""

    settings: Settings
    live: Live
    database: Database
    keys: KeyRing
    tenants: Tenants
    queue: RunQueue
    events: EventLog
    nodes: NodeRegistry
    runs: RunService
    skills: SkillService
    sessions: SessionService
    files: SessionFiles
    artifacts: ArtifactStore
    tools: ToolService
    mcp: McpServers
    talks: Talks
    rates: RateLimiter
    agents: AgentService
    worker: Worker[OutputSink]
    agent_worker: Worker[Voice]
    metrics: Metrics
    admin: AdminService

    @property
    def draining(self) -> bool:
        """Whether nothing new is taken any more."""
        return self.worker.draining

    def check_taking(self) -> None:
        """Raises DrainingError where nothing new is taken any more."""
        if self.draining:
            raise DrainingError("the server is about to end", hint="try again in a moment, or elsewhere")

    def admit(self, tenant_id: str, limits: TenantLimits) -> Allowance:
        """Lets a tenant ask for one more run, call or leg of a conversation, and returns how many are left.

        Raises DrainingError, PolicyError where it may not have sandboxes of this engine, RateLimitedError.
        """
        self.check_taking()
        check_engine(limits, self.settings.engine)
        return self.rates.check(tenant_id, per_minute=limits.runs_per_minute, now=time.monotonic())

    async def has_keys(self) -> bool:
        """Whether anybody has a key."""
        return bool(await Keys(self.database).list())

    async def drain(self, seconds: float) -> None:
        """Takes nothing new, gives what is under way that time to end, and cancels the rest."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.worker.drain(seconds))
            group.create_task(self.agent_worker.drain(seconds))
        await self.sessions.park()

    async def checks(self) -> dict[str, str]:
        """Returns `ok` for each part that is well, else what is wrong with it."""
        return {
            "engine": await _told(self.live.engine.probe()),
            "store": await _told(self.artifacts.usage(tenant=NOBODY)),
            "database": await _told(self._writes()),
        }

    async def _writes(self) -> None:
        """Raises DatabaseError where the workers wrote nothing of late: a disk that is full can still be read."""
        seconds = self.settings.daemon.lease_seconds
        if not self.draining and not await self.nodes.nodes(within_seconds=seconds):
            raise DatabaseError(f"nothing was written within {seconds:g} s", hint="is its disk full?")

    def capabilities(self) -> dict[str, Any]:
        """Returns what this server enforces and allows."""
        settings = self.settings
        sections = ("sandbox", "run", "collect", "inputs", "session", "artifacts")
        limits = {name: asdict(getattr(settings, name)) for name in sections}
        del limits["inputs"]["host_roots"]
        return {
            "version": version("sandbox-skills"),
            "engines": [settings.engine],
            "guarantees": sorted(map(str, self.live.manager.spec.needs)),
            "toolsets": list(TOOLSETS),
            "limits": limits,
            "features": [
                "runs",
                "events",
                "interactive",
                "idempotency",
                "sessions",
                "artifacts",
                "skills",
                "tools",
                "mcp",
                "agents",
            ],
        }


@asynccontextmanager
async def opened_daemon(settings: Settings) -> AsyncGenerator[Daemon]:
    """Opens the database and the engine and begins to work on runs; leaving it cancels them and ends every sandbox.

    Boxes are started ahead, unless the settings say otherwise. Raises SettingsError, DatabaseError, and
    DaemonRunningError where another one has the data directory.
    """
    chosen = _for_serving(settings)
    with sole_daemon(chosen.data_dir):
        quotas = TenantQuotas(chosen.artifact_quota())
        async with (
            opened_database(chosen.data_dir / DATABASE_FILE, durable=chosen.daemon.durable) as database,
            opened(chosen, quota_of=quotas.of) as live,
        ):
            for tenant in await Tenants(database).list():
                quotas.learn(tenant)
            daemon = await to_thread.run_sync(_daemon, chosen, live, database, quotas)
            await recover(database, daemon.queue, daemon.nodes, live.engine)
            await daemon.skills.kept.collect_all()
            async with _working(daemon):
                yield daemon


@asynccontextmanager
async def _working(daemon: Daemon) -> AsyncGenerator[None]:
    """Works on runs and tidies while the block lasts."""
    tidying = asyncio.create_task(keep_tidy(_jobs(daemon)), name="tidying")
    await daemon.worker.start()
    await daemon.agent_worker.start()
    try:
        yield
    finally:
        tidying.cancel()
        await daemon.mcp.aclose()
        await daemon.agent_worker.aclose()
        await daemon.worker.aclose()
        await daemon.tools.aclose()
        await finish(asyncio.wait([tidying]))


def _jobs(daemon: Daemon) -> dict[str, Every]:
    settings = daemon.settings
    ages = RecordAges(
        runs=settings.daemon.run_days * DAY_SECONDS,
        events=settings.daemon.event_days * DAY_SECONDS,
        sessions=settings.daemon.run_days * DAY_SECONDS,
    )
    kept = settings.artifact_retention()
    jobs = retention_jobs(daemon.database, daemon.queue, daemon.artifacts, ages=ages, artifacts=kept)
    return {
        **jobs,
        "sessions": Every(TIDY_SECONDS, daemon.sessions.tidy),
        "mcp": Every(MCP_SECONDS, daemon.mcp.tidy),
        "skills": Every(SWEEP_SECONDS, daemon.skills.kept.collect_all),
    }


def _daemon(settings: Settings, live: Live, database: Database, quotas: TenantQuotas) -> Daemon:
    """Puts the parts together; looks at the folders of skills. Blocking."""
    bell, ends, tenants = Bell(), Ends(), Tenants(database)
    queue = SqlRunQueue(database, bell, _queue_options(settings))
    events, nodes = SqlEventLog(database, bell), SqlNodeRegistry(database)
    node = Node(new_id(), settings.daemon.slots, frozenset({settings.engine, RunKind.SKILL}))
    models = Node(new_id(), settings.daemon.agent_slots, frozenset({RunKind.AGENT}))
    source, talks, rates = catalog(settings), Talks(), RateLimiter()
    kept = KeptSkills(database, SkillFolders(settings.data_dir / "tenant-skills"), ServerSkills(source))
    skills = SkillService(database, kept, limits=FetchLimits(download_bytes=settings.daemon.upload_bytes))
    sessions = SessionService(
        Sessions(database), tenants, live.sessions, node=node.id, folder=settings.data_dir / "sessions"
    )
    names = ToolConversations(database, node.id)
    tools = ToolService(live, kept, tenants, sessions, names, slots=settings.daemon.slots)
    conversations, lease_seconds = Agents(database), settings.daemon.lease_seconds
    asked = AgentModels(settings.model, settings.daemon.agent_models)
    metrics = Metrics()
    accepted = accepted_runs()
    work = SkillExecution(live, tools, skills, tenants, sessions, talks, accepted, settings.run_limits())
    return Daemon(
        settings=settings,
        live=live,
        database=database,
        keys=KeyRing(database, quotas.learn),
        tenants=tenants,
        queue=queue,
        events=events,
        nodes=nodes,
        runs=RunService(
            queue,
            events,
            ends,
            Runs(database),
            skills,
            sessions,
            accepted,
            tools.demanded,
            settings.engine,
            settings.daemon.wait_seconds,
        ),
        skills=skills,
        sessions=sessions,
        files=SessionFiles(sessions, settings.daemon.file_bytes),
        artifacts=live.artifacts,
        tools=tools,
        mcp=McpServers(settings, tools, rates),
        talks=talks,
        rates=rates,
        agents=AgentService(conversations, queue, events, Runs(database), tools, asked),
        worker=Worker(
            queue,
            nodes,
            metrics.counted(work),
            OutputEvents,
            node=node,
            lease_seconds=lease_seconds,
            on_end=ends.tell,
        ),
        agent_worker=Worker(
            queue,
            nodes,
            AgentWork(settings, conversations, tools, asked),
            AgentEvents,
            node=models,
            lease_seconds=lease_seconds,
            drained=interrupted,
        ),
        metrics=metrics,
        admin=AdminService(database, live.artifacts, server_limits(settings.artifact_quota())),
    )


def _queue_options(settings: Settings) -> QueueOptions:
    chosen = settings.daemon
    return QueueOptions(
        max_queued=chosen.queue_runs,
        lease_seconds=chosen.lease_seconds,
        runs_per_session=settings.session.concurrent_runs,
        max_event_bytes=chosen.event_bytes,
    )


async def first_key(daemon: Daemon) -> str | None:
    """Makes a tenant with a key that may do everything, and returns the key; None where there are keys already."""
    if await daemon.has_keys():
        return None
    try:
        tenant = await daemon.tenants.create(FIRST_TENANT, actor="daemon")
    except TenantExistsError:  # a start before this one got no further
        tenant = await daemon.tenants.named(FIRST_TENANT)
    created = await daemon.keys.create(tenant.id, scopes=ALL_SCOPES, name="first", actor="daemon")
    return created.token


def _for_serving(settings: Settings) -> Settings:
    """Returns the settings with boxes started ahead where nothing was said of that."""
    if "size" in settings.pool.given:
        return settings
    return settings.replaced(pool=settings.pool.replaced(size=settings.daemon.pool_size))


async def _told(check: Any) -> str:  # noqa: ANN401  # whatever a part answers
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            await check
    except TimeoutError:
        return f"no answer within {CHECK_SECONDS:g} s"
    except SandboxSkillsError as error:
        return error.message
    return "ok"
