"""Settings → store, engine, manager, sessions, client of models, controller."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from sandbox_skills.artifacts import LocalArtifactStore
from sandbox_skills.directories import current_account, neutral_directory, tells_of
from sandbox_skills.engines.pool import PooledEngine
from sandbox_skills.engines.select import select
from sandbox_skills.policy import secrets_of
from sandbox_skills.settings import (
    Settings,
    default_data_dir,
    docker_connection,
    secret_values,
)
from sandbox_skills.spec import BASE_GUARANTEES, Guarantee, SandboxSpec
from sandbox_skills.telemetry import AuditFile, Redaction
from sandbox_skills.workspace.input_plan import InputRules
from sandbox_skills.workspace.manager import RunRules, Services, WorkspaceManager
from sandbox_skills.workspace.sessions import SessionManager
from sandbox_skills.workspace.staging import SkillStore
from sandbox_skills.workspace.store_directory import unfinished_copies

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    import docker

    from sandbox_skills.artifacts import ArtifactStore
    from sandbox_skills.artifacts.store import QuotaOf
    from sandbox_skills.client.client import SkillsClient
    from sandbox_skills.client.options import ServerOptions
    from sandbox_skills.controller.controller import Controller
    from sandbox_skills.controller.hooks import Hooks
    from sandbox_skills.controller.openrouter import OpenRouterClient
    from sandbox_skills.controller.own_tools import OwnTool
    from sandbox_skills.engines.base import Engine
    from sandbox_skills.engines.bubblewrap import BubblewrapEngineOptions
    from sandbox_skills.engines.bubblewrap.build import BuildOptions
    from sandbox_skills.engines.docker import DockerEngineOptions
    from sandbox_skills.engines.doctor import DoctorOptions
    from sandbox_skills.engines.local import LocalEngineOptions
    from sandbox_skills.engines.select import EngineOptions
    from sandbox_skills.toolsets.toolbox import Toolbox


@dataclass(frozen=True, slots=True)
class Live:
    """What a program works with while `opened` lasts."""

    settings: Settings
    engine: Engine
    store: SkillStore
    manager: WorkspaceManager
    sessions: SessionManager
    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    @property
    def artifacts(self) -> ArtifactStore:
        """Where its runs keep what they are to keep."""
        return self.manager.services.artifacts or artifact_store(self.settings)


@asynccontextmanager
async def opened(
    settings: Settings, *, pooled: bool = True, quota_of: QuotaOf | None = None
) -> AsyncGenerator[Live]:
    """Makes store, engine and manager; leaving ends every sandbox of theirs and waits until each is gone.

    Connects to nothing before the first sandbox is asked for, unless boxes are to be started ahead. `pooled` False
    starts none, whatever the settings say: for a program that needs only one. `quota_of` tells what each tenant may
    keep, the settings where it is None. Raises SettingsError for secrets that the policy grants and that cannot be
    used.
    """
    values = secret_values(settings.secrets, secrets_of(settings.policy.rules()))
    store = SkillStore(store_root(settings))
    spec = sandbox_spec(settings)
    pool = PooledEngine(
        engine(settings, store),
        spec,
        size=settings.pool.size if pooled else 0,
        max_size=settings.pool.max_size,
        max_age_seconds=settings.pool.max_age_seconds,
    )
    async with pool:
        rules, beside = run_rules(settings), services(settings, values.values(), quota_of)
        manager = WorkspaceManager(pool, store, spec=spec, rules=rules, services=beside)
        snapshots = settings.data_dir / "snapshots"
        async with SessionManager(manager, policy=settings.session_policy(), snapshots=snapshots) as sessions:
            yield Live(settings, pool, store, manager, sessions, values)


def store_root(settings: Settings) -> Path:
    """Returns where staged skills lie, and sockets to sandboxes, who read that path in their mount tables.

    That is `store` in the data directory, but a neutral place where nobody chose that and it tells whose it is.
    """
    account = current_account()
    neutral = None
    if settings.data_dir == default_data_dir() and tells_of(settings.data_dir, account):
        neutral = neutral_directory(account)
    return settings.store.dir or (neutral or settings.data_dir) / "store"


def run_rules(settings: Settings) -> RunRules:
    """Returns what the settings let runs have."""
    return RunRules(
        fork_python=settings.python.fork_server,
        limits=settings.run_limits(),
        collect=settings.collect_limits(),
        wall_ceiling=settings.run.wall_ceiling_seconds,
        inputs=InputRules(settings.inputs.host_roots, settings.input_limits()),
    )


def services(settings: Settings, hidden: Iterable[str] = (), quota_of: QuotaOf | None = None) -> Services:
    """Returns where outputs of runs are saved and runs are written down; no output shows what is `hidden`."""
    return Services(artifact_store(settings, quota_of), audit_file(settings), Redaction(hidden))


def audit_file(settings: Settings) -> AuditFile | None:
    """Returns where runs and calls of tools are written down, None where the settings want no record."""
    chosen = settings.audit
    path = settings.data_dir / "audit" / "runs.jsonl"
    if not chosen.enabled:
        return None
    return AuditFile(path, max_bytes=chosen.max_bytes, kept_files=chosen.kept_files)


def artifact_store(settings: Settings, quota_of: QuotaOf | None = None) -> ArtifactStore:
    """Returns the artifacts of every tenant, each within the quota of the settings, or that `quota_of` tells."""
    return LocalArtifactStore(settings.data_dir / "artifacts", quota=quota_of or settings.artifact_quota())


def sandbox_spec(settings: Settings) -> SandboxSpec:
    """Returns the box that the settings describe; it demands all that the engine they name stands for."""
    longest = settings.run.wall_ceiling_seconds
    # A session ends its box itself; the label is for one whose owner is gone.
    ttl = max(3600.0, 2 * longest, settings.session.max_age_seconds + longest)
    return SandboxSpec(limits=settings.sandbox_limits(), needs=_needs(settings), ttl_seconds=ttl)


def _needs(settings: Settings) -> frozenset[Guarantee]:
    if settings.engine in {"fake", "local"}:
        return frozenset()
    if settings.engine == "bubblewrap":
        return BASE_GUARANTEES - settings.bubblewrap.without
    apparmor = {Guarantee.APPARMOR} if settings.docker.apparmor == "required" else set[Guarantee]()
    boundary = {Guarantee.KERNEL_BOUNDARY} if settings.docker.runtime == "runsc" else set[Guarantee]()
    return (BASE_GUARANTEES - settings.docker.without) | apparmor | boundary


def engine(settings: Settings, store: SkillStore) -> Engine:
    """Returns the engine that the settings name, not yet connected, on the given store."""
    if settings.engine == "fake":
        return select("fake", concurrent_runs=settings.session.concurrent_runs)
    return select(settings.engine, _OPTIONS[settings.engine](settings, store))


def _docker(settings: Settings, store: SkillStore) -> DockerEngineOptions:
    from sandbox_skills.engines.docker import DockerEngineOptions  # noqa: PLC0415  # docker-py is slow to import

    return DockerEngineOptions(
        data_dir=settings.data_dir,
        connection=docker_connection(settings.docker),
        skills_dir=store.mount_dir,
        marker=store.marker(),
        image=settings.image.name,
        target=settings.image.target,
        runtime=settings.docker.runtime,
        use_apparmor=settings.docker.apparmor != "off",
        timeout_seconds=settings.docker.timeout_seconds,
        concurrent_runs=settings.session.concurrent_runs,
        sockets_dir=store_root(settings),
    )


def _bubblewrap(settings: Settings, store: SkillStore) -> BubblewrapEngineOptions:
    from sandbox_skills.engines.bubblewrap import BubblewrapEngineOptions  # noqa: PLC0415  # only where it is asked for

    return BubblewrapEngineOptions(
        data_dir=settings.data_dir,
        skills_dir=store.mount_dir,
        marker=store.marker(),
        image=settings.image.name,
        target=settings.image.target,
        program=settings.bubblewrap.program,
        concurrent_runs=settings.session.concurrent_runs,
    )


def _local(settings: Settings, store: SkillStore) -> LocalEngineOptions:
    from sandbox_skills.engines.local import LocalEngineOptions  # noqa: PLC0415  # only where it is asked for

    return LocalEngineOptions(
        data_dir=settings.data_dir,
        skills_dir=store.mount_dir,
        concurrent_runs=settings.session.concurrent_runs,
    )


_OPTIONS: Mapping[str, Callable[[Settings, SkillStore], EngineOptions]] = {
    "docker": _docker,
    "bubblewrap": _bubblewrap,
    "local": _local,
}


def model_client(settings: Settings) -> OpenRouterClient:
    """Returns a client of the server of models that the settings name, not yet connected; raises SettingsError."""
    from sandbox_skills.controller.openrouter import OpenRouterClient  # noqa: PLC0415  # httpx is slow to import

    return OpenRouterClient(settings.model.client_options())


def server_client(options: ServerOptions) -> SkillsClient:
    """Returns a client of a daemon, not yet connected; raises SettingsError for an address that no key may go to."""
    from sandbox_skills.client.client import SkillsClient  # noqa: PLC0415  # httpx is slow to import

    return SkillsClient(options)


def controller(
    settings: Settings,
    client: OpenRouterClient,
    *,
    toolbox: Toolbox | None = None,
    tools: Sequence[OwnTool] = (),
    hooks: Hooks | None = None,
    instructions: str = "",
) -> Controller:
    """Returns a controller of the settings' model with these tools; raises SettingsError where none is chosen."""
    from sandbox_skills.controller.controller import Controller  # noqa: PLC0415  # likewise

    options = settings.model.controller_options(instructions=instructions)
    return Controller(client, options, toolbox=toolbox, tools=tools, hooks=hooks)


def root_build(settings: Settings) -> BuildOptions:
    """Returns how the root file system of bubblewrap's boxes is made for these settings."""
    from sandbox_skills.engines.bubblewrap.build import BuildOptions  # noqa: PLC0415  # it imports docker-py
    from sandbox_skills.engines.bubblewrap.rootfs import Wanted  # noqa: PLC0415  # likewise

    return BuildOptions(
        folder=settings.data_dir / "rootfs",
        cache_dir=settings.data_dir / "cache",
        wanted=Wanted(settings.image.target, settings.image.name),
        base=settings.image.base,
        program=settings.bubblewrap.program,
        connect=partial(docker_client, settings),
    )


def docker_client(settings: Settings) -> docker.APIClient:
    """Returns a client of the daemon that the settings name, connected; raises EngineUnavailableError with the fix."""
    from sandbox_skills.engines.docker_client import connect  # noqa: PLC0415  # docker-py is slow to import

    return connect(docker_connection(settings.docker), timeout_seconds=settings.docker.timeout_seconds)


def doctor_options(settings: Settings) -> DoctorOptions:
    """Returns what `doctor` is to examine for these settings."""
    from sandbox_skills.engines.doctor import DoctorOptions  # noqa: PLC0415  # docker-py is slow to import

    return DoctorOptions(
        data_dir=settings.data_dir,
        engine=settings.engine,
        program=settings.bubblewrap.program,
        store=store_root(settings),
        unfinished=partial(unfinished_copies, store_root(settings)),
        connection=docker_connection(settings.docker),
        image=settings.image.name,
        target=settings.image.target,
        runtime=settings.docker.runtime,
        apparmor=settings.docker.apparmor,
        needs=sandbox_spec(settings).needs,
    )
