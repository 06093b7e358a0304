"""Every setting with its type, bounds and default. Defaults that `spec` has are taken from there."""

from __future__ import annotations

from dataclasses import asdict, field, fields
from typing import TYPE_CHECKING, Literal

import platformdirs

from sandbox_skills.artifacts.choices import DAY_SECONDS, ArtifactQuota, RetentionPolicy
from sandbox_skills.catalog.scan import MAX_DIRECTORIES
from sandbox_skills.settings.daemon_section import DaemonSettings
from sandbox_skills.settings.model_section import ModelSettings
from sandbox_skills.settings.policy_section import PolicySettings, SecretsSettings, ToolsSettings
from sandbox_skills.settings.section import Section
from sandbox_skills.settings.server_section import ServerSettings
from sandbox_skills.settings.workspace_tools_section import WorkspaceToolsSettings
from sandbox_skills.spec import CollectLimits, Guarantee, Limits, SandboxLimits
from sandbox_skills.telemetry import audit_file
from sandbox_skills.workspace.choices import InputLimits, SessionPolicy, SnapshotLimits

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pydantic import BaseModel

    from sandbox_skills.settings.kinds import (
        AbsolutePath,
        Annotated,
        Count,
        Field,
        Seconds,
        SecretStr,
        Size,
        Words,
    )

APP = "sandbox-skills"
"""Names this program's folders in the user's data and configuration directories."""

PATHS = frozenset({
    "data_dir", "skills.roots", "skills.lock", "docker.cert_path", "bubblewrap.program", "inputs.host_roots",
    "store.dir", "policy.file", "secrets.file", "secrets.folder",
    "tools.save_to",
})  # fmt: skip
"""Settings whose values are paths: one in a file is relative to the folder of that file."""

TREES = frozenset({"policy.default", "policy.skills", "policy.tools", "policy.tenants"})
"""Settings whose values are mappings, with names of the user's own in them."""

SECRETS = frozenset({"model.api_key", "mcp.token", "server.api_key"})
"""Settings whose values are shown nowhere."""

COMMAND_LINE_ONLY = frozenset({"accept_no_isolation"})
"""What no file and no variable may say: the user's word for one command."""

_BOX = SandboxLimits()
_RUN = Limits()
_COLLECT = CollectLimits()
_ARTIFACTS = ArtifactQuota()
_INPUTS = InputLimits()
_SESSION = SessionPolicy()


def default_data_dir() -> Path:
    """Returns the user's own place for data."""
    return platformdirs.user_data_path(APP)


class SkillsSettings(Section):
    """Where skills are looked for, and which of them counts. No roots: the catalog's own defaults.

    `lock` None: `skills.lock` in the data directory.
    """

    roots: tuple[AbsolutePath, ...] = ()
    precedence: Literal["first", "last"] = "first"
    user_scope: bool = False
    max_directories: Count = MAX_DIRECTORIES
    lock: AbsolutePath | None = None


class DockerSettings(Section):
    """How the Docker Engine is reached, what is asked of it, and what boxes may do without.

    None: as `DOCKER_*` or the daemon has it.
    """

    host: str | None = None
    context: str | None = None
    tls_verify: bool | None = None
    cert_path: AbsolutePath | None = None
    runtime: str | None = None
    without: Annotated[frozenset[Guarantee], Words] = frozenset()
    apparmor: Literal["auto", "required", "off"] = "auto"
    timeout_seconds: Seconds = 60.0


class BubblewrapSettings(Section):
    """Which bubblewrap makes boxes, None for the one in PATH, and what they may do without."""

    program: AbsolutePath | None = None
    without: Annotated[frozenset[Guarantee], Words] = frozenset()


class ImageSettings(Section):
    """Which runner image boxes are made from; `name` is an image of the user's own."""

    name: str | None = None
    target: Literal["slim", "full"] = "slim"
    base: Literal["auto", "registry", "bootstrap"] = "auto"


class SandboxSettings(Section):
    """Ceilings of one box, as `spec.SandboxLimits`."""

    memory: Size = _BOX.memory
    cpus: Annotated[float, Field(gt=0, allow_inf_nan=False)] = _BOX.cpus
    pids: Count = _BOX.pids
    workspace_bytes: Size = _BOX.workspace_bytes
    workspace_inodes: Count = _BOX.workspace_inodes
    tmp_bytes: Size = _BOX.tmp_bytes
    shm_bytes: Size = _BOX.shm_bytes
    open_files: Count = _BOX.open_files
    file_bytes: Size = _BOX.file_bytes


class RunSettings(Section):
    """Ceilings of one run, as `spec.Limits`, and the longest time that a caller may ask for."""

    wall_seconds: Seconds = _RUN.wall_seconds
    wall_ceiling_seconds: Seconds = 900.0
    cpu_seconds: Seconds | None = _RUN.cpu_seconds
    stdout_bytes: Size = _RUN.stdout_bytes
    stderr_bytes: Size = _RUN.stderr_bytes
    output_bytes: Size = _RUN.output_bytes

    def agree(self) -> None:
        """Raises ValueError for a usual time above the ceiling."""
        if self.wall_seconds > self.wall_ceiling_seconds:
            raise ValueError("wall_seconds is more than wall_ceiling_seconds")


class PythonSettings(Section):
    """How Python programs are started: each as a fresh interpreter, or as a fork of one that is up."""

    fork_server: bool = False


class CollectSettings(Section):
    """Ceilings of one collection, as `spec.CollectLimits`."""

    files: Count = _COLLECT.files
    file_bytes: Size = _COLLECT.file_bytes
    total_bytes: Size = _COLLECT.total_bytes


class InputsSettings(Section):
    """What runs are given, as `workspace.InputLimits`, and the host folders that a model may name with `host://`."""

    host_roots: tuple[AbsolutePath, ...] = ()
    max_files: Count = _INPUTS.files
    max_input_bytes: Size = _INPUTS.input_bytes
    max_total_bytes: Size = _INPUTS.total_bytes


class SessionSettings(Section):
    """How long sessions last and what one takes at a time, as `workspace.SessionPolicy`."""

    idle_seconds: Seconds = _SESSION.idle_seconds
    max_age_seconds: Seconds = _SESSION.max_age_seconds
    concurrency: Literal["serialise", "refuse", "parallel"] = _SESSION.concurrency
    concurrent_runs: Annotated[int, Field(ge=1, le=16)] = _SESSION.concurrent_runs
    max_per_tenant: Count = _SESSION.max_per_tenant
    snapshot_files: Count = _SESSION.snapshot.files
    snapshot_bytes: Size = _SESSION.snapshot.bytes
    kept_bytes: Size = _SESSION.kept_bytes


class AuditSettings(Section):
    """Whether every run is written down in `audit/runs.jsonl` of the data directory, and how much of that is kept."""

    enabled: bool = True
    max_bytes: Size = audit_file.MAX_BYTES
    kept_files: Count = audit_file.KEPT_FILES


class PoolSettings(Section):
    """Boxes started ahead: `size` always, up to `max_size` where they are asked for often.

    0 boxes by default: a command that runs once would only throw them away.
    """

    size: Annotated[int, Field(ge=0, le=64)] = 0
    max_size: Annotated[int, Field(ge=0, le=64)] = 8
    max_age_seconds: Seconds = 600.0


class McpSettings(Section):
    """Where `mcp --http` listens; with a `token` only to clients that send it."""

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=1, le=65_535)] = 8766
    token: Annotated[SecretStr, Field(min_length=16)] | None = None


class StoreSettings(Section):
    """Where staged skills lie, and what `gc` leaves of those that nothing uses. None: see `wiring.store_root`."""

    dir: AbsolutePath | None = None
    max_age_days: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 30.0
    max_bytes: Size = 2 * 1024**3


class ArtifactsSettings(Section):
    """What one tenant may keep, as `artifacts.ArtifactQuota`, and for how long. Null age: for ever."""

    max_age_days: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = 90.0
    max_count: Count = _ARTIFACTS.count
    max_bytes: Size = _ARTIFACTS.bytes


class Settings(Section):
    """Every setting. Building one reads nothing but its arguments; `load_settings` reads the user's word."""

    data_dir: AbsolutePath = field(default_factory=default_data_dir)
    engine: Literal["docker", "bubblewrap", "local", "fake"] = "docker"
    accept_no_isolation: bool = False
    skills: SkillsSettings = SkillsSettings()
    docker: DockerSettings = DockerSettings()
    bubblewrap: BubblewrapSettings = BubblewrapSettings()
    image: ImageSettings = ImageSettings()
    sandbox: SandboxSettings = SandboxSettings()
    run: RunSettings = RunSettings()
    python: PythonSettings = PythonSettings()
    collect: CollectSettings = CollectSettings()
    pool: PoolSettings = PoolSettings()
    store: StoreSettings = StoreSettings()
    artifacts: ArtifactsSettings = ArtifactsSettings()
    inputs: InputsSettings = InputsSettings()
    session: SessionSettings = SessionSettings()
    audit: AuditSettings = AuditSettings()
    workspace_tools: WorkspaceToolsSettings = WorkspaceToolsSettings()
    model: ModelSettings = ModelSettings()
    tools: ToolsSettings = ToolsSettings()
    mcp: McpSettings = McpSettings()
    server: ServerSettings = ServerSettings()
    daemon: DaemonSettings = DaemonSettings()
    policy: PolicySettings = PolicySettings()
    secrets: SecretsSettings = SecretsSettings()

    @classmethod
    def sections(cls) -> frozenset[str]:
        """Returns the names that have settings below them."""
        return frozenset(name.split(".")[0] for name in setting_names(cls) if "." in name)

    @classmethod
    def form_base(cls) -> type[BaseModel]:
        """Returns the form that reads nothing but its arguments."""
        from sandbox_skills.settings.arguments import Arguments  # noqa: PLC0415  # pydantic-settings

        return Arguments

    def agree(self) -> None:
        """Raises ValueError for an engine that isolates nothing where that is not accepted."""
        if self.engine == "local" and not self.accept_no_isolation:
            raise ValueError("local isolates nothing, which accept_no_isolation has to accept")

    def lock_file(self) -> Path:
        """Returns where the pins of accepted skills are kept."""
        return self.skills.lock or self.data_dir / "skills.lock"

    def installed_skills(self) -> Path:
        """Returns the folder that `sandbox-skills add` puts skills into."""
        return self.data_dir / "skills"

    def artifact_quota(self) -> ArtifactQuota:
        """Returns what one tenant may keep."""
        return ArtifactQuota(count=self.artifacts.max_count, bytes=self.artifacts.max_bytes)

    def artifact_retention(self) -> RetentionPolicy:
        """Returns what is left of a tenant's artifacts when they are cleaned."""
        kept = self.artifacts
        age = None if kept.max_age_days is None else kept.max_age_days * DAY_SECONDS
        return RetentionPolicy(max_age=age, max_count=kept.max_count, max_bytes=kept.max_bytes)

    def input_limits(self) -> InputLimits:
        """Returns the ceilings of what a run is given."""
        given = self.inputs
        return InputLimits(given.max_files, given.max_input_bytes, given.max_total_bytes)

    def session_policy(self) -> SessionPolicy:
        """Returns how long sessions last and what one takes at a time."""
        chosen = self.session
        return SessionPolicy(
            idle_seconds=chosen.idle_seconds,
            max_age_seconds=chosen.max_age_seconds,
            concurrency=chosen.concurrency,
            concurrent_runs=chosen.concurrent_runs,
            max_per_tenant=chosen.max_per_tenant,
            snapshot=SnapshotLimits(chosen.snapshot_files, chosen.snapshot_bytes),
            kept_bytes=chosen.kept_bytes,
        )

    def sandbox_limits(self) -> SandboxLimits:
        """Returns the ceilings of a box."""
        return SandboxLimits(**asdict(self.sandbox))

    def run_limits(self) -> Limits:
        """Returns the ceilings of a run that asks for none of its own."""
        chosen = asdict(self.run)
        del chosen["wall_ceiling_seconds"]
        return Limits(**chosen)

    def collect_limits(self) -> CollectLimits:
        """Returns the ceilings of a collection."""
        return CollectLimits(**asdict(self.collect))


def setting_names(kind: type[Section] = Settings) -> Iterator[str]:
    """Yields the dotted name of every setting, in the order of the model."""
    for one in fields(kind):
        if one.name in COMMAND_LINE_ONLY:
            continue
        if isinstance(one.default, Section):
            yield from (f"{one.name}.{inner}" for inner in setting_names(type(one.default)))
        else:
            yield one.name
