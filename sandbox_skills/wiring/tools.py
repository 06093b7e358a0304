"""Toolsets by their names, and the provider of a caller's own loop."""

from __future__ import annotations

import secrets
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from anyio import to_thread
from pydantic import ValidationError

from sandbox_skills.catalog import SkillRoot, defined_tools
from sandbox_skills.errors import SettingsError
from sandbox_skills.policy import decide
from sandbox_skills.settings import load_settings
from sandbox_skills.spec import KIB, LOCAL_TENANT
from sandbox_skills.toolsets.base import Conversation
from sandbox_skills.toolsets.blocking import OpeningProvider
from sandbox_skills.toolsets.native import LOADERS, NativeToolset
from sandbox_skills.toolsets.offered import OfferedSkills
from sandbox_skills.toolsets.openrouter import OpenRouterOptions, OpenRouterTools
from sandbox_skills.toolsets.provider import PARALLEL_CALLS, SkillsProvider
from sandbox_skills.toolsets.resources_tools import ResourcesToolset
from sandbox_skills.toolsets.skill_runs import SkillRuns
from sandbox_skills.toolsets.skill_tool import SkillToolset
from sandbox_skills.toolsets.tool_making import ToolMaking
from sandbox_skills.toolsets.toolbox import Toolbox
from sandbox_skills.toolsets.workspace_tools.toolset import WorkspaceToolset
from sandbox_skills.wiring import artifact_store, audit_file, catalog, catalog_of, opened, trust

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence

    from sandbox_skills.artifacts import ArtifactStore
    from sandbox_skills.catalog import Catalog, SkillSpec
    from sandbox_skills.settings import Settings
    from sandbox_skills.telemetry import ToolResponse
    from sandbox_skills.toolsets.base import Toolset
    from sandbox_skills.toolsets.workspace_tools.options import WorkspaceToolsOptions
    from sandbox_skills.wiring import Live


@dataclass(frozen=True, slots=True)
class ToolsetOptions:
    """How toolsets behave, those that have a choice."""

    openrouter: OpenRouterOptions
    workspace: WorkspaceToolsOptions


@dataclass(frozen=True, slots=True)
class ToolsetParts:
    """What toolsets are made of. Without `making` there are no tools that make tools."""

    runs: SkillRuns
    options: ToolsetOptions
    artifacts: ArtifactStore | None = None
    making: ToolMaking | None = None


@dataclass(frozen=True, slots=True)
class OpenedTools:
    """The tools of the user's skills, what they run in, and the skills that models are offered."""

    toolbox: Toolbox
    live: Live
    skills: OfferedSkills


_MAKERS: Mapping[str, Callable[[ToolsetParts, str], Toolset]] = MappingProxyType(
    {
        "openrouter": lambda parts, _: OpenRouterTools(parts.runs, parts.options.openrouter),
        "workspace": lambda parts, _: WorkspaceToolset(
            parts.runs, options=parts.options.workspace, artifacts=parts.artifacts
        ),
        "resources": lambda parts, _: ResourcesToolset(parts.runs.skills),
        "skill": lambda parts, _: SkillToolset(parts.runs.skills),
        "native": lambda parts, loader: NativeToolset(parts.runs, loader=loader, making=parts.making),
    }
)

TOOLSETS = tuple(_MAKERS)
"""The names of all toolsets."""


def make_toolsets(names: Sequence[str], parts: ToolsetParts) -> tuple[Toolset, ...]:
    """Returns the toolsets of these names, in that order; raises SettingsError for a name that none has."""
    check_toolsets(names)
    loader = next((LOADERS[name] for name in names if name in LOADERS), "")
    return tuple(_MAKERS[name](parts, loader) for name in names)


def check_toolsets(names: Sequence[str]) -> None:
    """Raises SettingsError for a name that no toolset has."""
    for name in names:
        if name not in _MAKERS:
            raise SettingsError(f"no toolset is named {name!r}", hint=f"there are {', '.join(TOOLSETS)}")


def create_skills_provider(  # noqa: PLR0913  # the design's options
    skills_dir: str | Path | Sequence[str | Path],
    *,
    include: Iterable[str] | None = None,
    exclude: Iterable[str] = (),
    cwd: str = "",
    timeout: float = 30.0,
    max_output: int = 20 * KIB,
    toolsets: Sequence[str] = ("openrouter",),
    engine: str | None = None,
    tenant: str = LOCAL_TENANT,
    save_tools_to: str | Path | None = None,
    settings: Settings | None = None,
) -> OpeningProvider:
    """Returns tools for the skills of one directory or several: enter it with `async with`, or `with` to block.

    Whoever names a directory vouches for its skills. `include` and `exclude` hold names or ids; `cwd` is a place in
    the sandbox, `timeout` seconds of a script, `max_output` bytes of each of its streams. `save_tools_to` is the one of
    these directories in which `define_tool` may save a tool for later providers, None where it may not. `engine` and
    whatever is not said here are as the settings say, by default the user's; boxes are started ahead and scripts of
    one turn run beside each other, unless the settings say otherwise. Raises SettingsError, SkillNotFoundError for
    an `include` that names no skill.
    """
    chosen = _for_provider(settings or load_settings(), engine)
    named = [skills_dir] if isinstance(skills_dir, (str, Path)) else skills_dir
    saved = None if save_tools_to is None else _one_of(named, Path(save_tools_to))
    source = catalog_of(chosen, [_named_root(Path(one)) for one in named])
    wanted = None if include is None else frozenset(include)
    for name in wanted or ():
        source.require(name)
    offered = offered_skills(chosen, source, include=wanted, exclude=exclude, tenant=tenant)
    check_toolsets(toolsets)
    # The caller builds the prompt, so that what is loaded can only be told in replies.
    options = ToolsetOptions(
        OpenRouterOptions(timeout=timeout, max_output=max_output, cwd=cwd),
        replace(_workspace_options(chosen), place="reply"),
    )

    @asynccontextmanager
    async def open_provider() -> AsyncGenerator[SkillsProvider]:
        opening = _opened(chosen, offered, toolsets, options, tenant=tenant, saved=saved)
        async with opening as (toolbox, _):
            yield SkillsProvider(toolbox, offered, Conversation(secrets.token_hex(8), tenant))

    return OpeningProvider(open_provider)


@asynccontextmanager
async def opened_tools(
    settings: Settings, *, toolsets: Sequence[str] = (), tenant: str = LOCAL_TENANT, reply: bool = False
) -> AsyncGenerator[OpenedTools]:
    """Gives the tools of the user's skills to a conversation; leaving ends every sandbox of theirs.

    Without `toolsets` they are those of the settings. `reply` is for a caller that builds no prompt of its own: what
    is loaded is told in replies. Connects to nothing before the first call that needs a sandbox. Raises SettingsError
    for a toolset that is none.
    """
    chosen = _for_provider(settings, None)
    wanted = chosen.tools
    source = catalog(chosen)
    offered = offered_skills(chosen, source, include=wanted.include, exclude=wanted.exclude, tenant=tenant)
    options = toolset_options(chosen, reply=reply)
    names = toolsets or wanted.toolsets
    opening = _opened(chosen, offered, names, options, tenant=tenant, pooled=False, saved=wanted.save_to)
    async with opening as (toolbox, live):
        yield OpenedTools(toolbox, live, offered)


def offered_skills(
    settings: Settings,
    source: Catalog,
    *,
    include: Iterable[str] | None = None,
    exclude: Iterable[str] = (),
    tenant: str,
) -> OfferedSkills:
    """Returns the skills that a tenant's models are offered: of those chosen, the ones that the policy allows."""
    policy = settings.policy.rules()

    def admits(spec: SkillSpec) -> bool:
        return decide(policy, tenant=tenant, skill=spec.name).allowed

    chosen = None if include is None else frozenset(include)
    return OfferedSkills(source, include=chosen, exclude=frozenset(exclude), admits=admits)


def toolset_options(settings: Settings, *, reply: bool = False) -> ToolsetOptions:
    """Returns how toolsets behave by these settings; `reply` as for `opened_tools`."""
    workspace = _workspace_options(settings)
    workspace = replace(workspace, place="reply") if reply else workspace
    return ToolsetOptions(OpenRouterOptions(), workspace)


def skill_runs(live: Live, offered: OfferedSkills) -> SkillRuns:
    """Returns what runs the offered skills as the settings' policy allows."""
    policy, demanded = live.settings.policy.rules(), trust(live.settings).demanded
    return SkillRuns(offered, live.sessions, policy=policy, secrets=live.secrets, demanded=demanded)


def toolbox_of(live: Live, runs: SkillRuns, toolsets: Sequence[Toolset]) -> Toolbox:
    """Returns toolsets as one, whose calls the policy judges and the audit file keeps. Blocking."""
    audit = audit_file(live.settings)

    def keep(response: ToolResponse) -> None:
        if audit is not None:
            audit.record(response.recorded())

    return Toolbox(
        toolsets,
        policy=runs.policy,
        canonical=runs.skills.canonical,
        redaction=live.manager.services.redaction,
        on_response=keep,
    )


@asynccontextmanager
async def _opened(
    settings: Settings,
    offered: OfferedSkills,
    toolsets: Sequence[str],
    options: ToolsetOptions,
    *,
    tenant: str,
    pooled: bool = True,
    saved: Path | None = None,
) -> AsyncGenerator[tuple[Toolbox, Live]]:
    check_toolsets(toolsets)
    async with opened(settings, pooled=pooled) as live:
        with defined_tools(saved) as defined:
            runs = skill_runs(live, offered)
            parts = ToolsetParts(
                runs, options, artifact_store(settings), ToolMaking(defined, offered, tenant=tenant)
            )
            made = make_toolsets(toolsets, parts)
            yield await to_thread.run_sync(toolbox_of, live, runs, made), live


def _workspace_options(settings: Settings) -> WorkspaceToolsOptions:
    return settings.workspace_tools.options(settings.run_limits())


def _one_of(directories: Iterable[str | Path], wanted: Path) -> Path:
    if wanted.absolute() not in {Path(one).absolute() for one in directories}:
        raise SettingsError(f"{wanted} is not among the directories of skills", hint="name it there too")
    return wanted.absolute()


def _named_root(directory: Path) -> SkillRoot:
    if not directory.is_dir():
        raise SettingsError(
            f"{directory} is not a directory of skills", hint="name the folder that holds them"
        )
    return SkillRoot(str(directory.absolute()))


def _for_provider(settings: Settings, engine: str | None) -> Settings:
    """Returns the settings with what suits a model that calls several tools at once and waits for each."""
    pool, session = settings.pool, settings.session
    if "size" not in pool.given:
        pool = pool.replaced(size=1)
    if not session.given & {"concurrency", "concurrent_runs"}:
        session = session.replaced(concurrency="parallel", concurrent_runs=PARALLEL_CALLS)
    chosen = {} if engine is None else {"engine": engine}
    try:
        return settings.replaced(pool=pool, session=session, **chosen)
    except ValidationError as error:
        raise SettingsError(f"engine: {error.errors()[0]['msg']} (got {engine!r})") from error
