"""Every setting with its type, bounds and default. Defaults that `spec` has are taken from there."""

from pathlib import Path  # pydantic reads annotations when the program runs
from typing import TYPE_CHECKING, Annotated, Literal, Self

import platformdirs
from pydantic import BaseModel, BeforeValidator, Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from sandbox_skills.artifacts.choices import DAY_SECONDS, ArtifactQuota, RetentionPolicy
from sandbox_skills.catalog.scan import MAX_DIRECTORIES
from sandbox_skills.settings.daemon_section import DaemonSettings
from sandbox_skills.settings.model_section import ModelSettings
from sandbox_skills.settings.policy_section import PolicySettings, SecretsSettings, ToolsSettings
from sandbox_skills.settings.section import AbsolutePath, Count, Late, Seconds, Section, Size, words
from sandbox_skills.settings.server_section import ServerSettings
from sandbox_skills.settings.workspace_tools_section import WorkspaceToolsSettings
from sandbox_skills.spec import CollectLimits, Guarantee, Limits, SandboxLimits
from sandbox_skills.telemetry import audit_file
from sandbox_skills.workspace.choices import InputLimits, SessionPolicy, SnapshotLimits

if TYPE_CHECKING:
    from collections.abc import Iterator
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
    without: Annotated[frozenset[Guarantee], BeforeValidator(words)] = frozenset()
    apparmor: Literal["auto", "required", "off"] = "auto"
    timeout_seconds: Seconds = 60.0


class BubblewrapSettings(Section):
    """Which bubblewrap makes boxes, None for the one in PATH, and what they may do without."""

    program: AbsolutePath | None = None
    without: Annotated[frozenset[Guarantee], BeforeValidator(words)] = frozenset()


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

    @model_validator(mode="after")
    def _default_below_ceiling(self) -> Self:
        if self.wall_seconds > self.wall_ceiling_seconds:
            raise ValueError("wall_seconds is more than wall_ceiling_seconds")
        return self


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
    token: SecretStr | None = Field(default=None, min_length=16)


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


class Settings(BaseSettings):
    """Every setting. Building one reads nothing but its arguments; `load_settings` reads the user's word."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True)

    data_dir: AbsolutePath = Field(default_factory=default_data_dir)
    engine: Literal["docker", "bubblewrap", "local", "fake"] = "docker"
    accept_no_isolation: bool = False
    skills: Late[SkillsSettings] = SkillsSettings.usual()
    docker: Late[DockerSettings] = DockerSettings.usual()
    bubblewrap: Late[BubblewrapSettings] = BubblewrapSettings.usual()
    image: Late[ImageSettings] = ImageSettings.usual()
    sandbox: Late[SandboxSettings] = SandboxSettings.usual()
    run: Late[RunSettings] = RunSettings.usual()
    python: Late[PythonSettings] = PythonSettings.usual()
    collect: Late[CollectSettings] = CollectSettings.usual()
    pool: Late[PoolSettings] = PoolSettings.usual()
    store: Late[StoreSettings] = StoreSettings.usual()
    artifacts: Late[ArtifactsSettings] = ArtifactsSettings.usual()
    inputs: Late[InputsSettings] = InputsSettings.usual()
    session: Late[SessionSettings] = SessionSettings.usual()
    audit: Late[AuditSettings] = AuditSettings.usual()
    workspace_tools: Late[WorkspaceToolsSettings] = WorkspaceToolsSettings.usual()
    model: Late[ModelSettings] = ModelSettings.usual()
    tools: Late[ToolsSettings] = ToolsSettings.usual()
    mcp: Late[McpSettings] = McpSettings.usual()
    server: Late[ServerSettings] = ServerSettings.usual()
    daemon: Late[DaemonSettings] = DaemonSettings.usual()
    policy: Late[PolicySettings] = PolicySettings.usual()
    secrets: Late[SecretsSettings] = SecretsSettings.usual()

    @classmethod
    def sections(cls) -> frozenset[str]:
        """Returns the names that have settings below them."""
        return frozenset(name.split(".")[0] for name in setting_names(cls) if "." in name)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Leaves only the arguments: the library's own sources name neither line nor near match."""
        del settings_cls, env_settings, dotenv_settings, file_secret_settings
        return (init_settings,)

    @model_validator(mode="after")
    def _isolation_accepted(self) -> Self:
        if self.engine == "local" and not self.accept_no_isolation:
            raise ValueError("local isolates nothing, which accept_no_isolation has to accept")
        return self

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
        return SandboxLimits(**self.sandbox.model_dump())

    def run_limits(self) -> Limits:
        """Returns the ceilings of a run that asks for none of its own."""
        return Limits(**self.run.model_dump(exclude={"wall_ceiling_seconds"}))

    def collect_limits(self) -> CollectLimits:
        """Returns the ceilings of a collection."""
        return CollectLimits(**self.collect.model_dump())


def setting_names(model: type[BaseModel] = Settings) -> "Iterator[str]":
    """Yields the dotted name of every setting, in the order of the model."""
    for name, field in model.model_fields.items():
        if name in COMMAND_LINE_ONLY:
            continue
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            yield from (f"{name}.{inner}" for inner in setting_names(field.annotation))
        else:
            yield name
