"""The names of the workspace tools, and which of them are offered. Pure."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from sandbox_skills.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

SKILL_LOAD = "skill_load"
SKILL_SELECT_DOCS = "skill_select_docs"
SKILL_LIST_DOCS = "skill_list_docs"
SKILL_RUN = "skill_run"
SKILL_EXEC = "skill_exec"
SKILL_WRITE_STDIN = "skill_write_stdin"
SKILL_POLL_SESSION = "skill_poll_session"
SKILL_KILL_SESSION = "skill_kill_session"
WORKSPACE_EXEC = "workspace_exec"
WORKSPACE_WRITE_STDIN = "workspace_write_stdin"
WORKSPACE_KILL_SESSION = "workspace_kill_session"
WORKSPACE_SAVE_ARTIFACT = "workspace_save_artifact"

KNOWLEDGE = (SKILL_LOAD, SKILL_SELECT_DOCS, SKILL_LIST_DOCS)
"""Tools that start nothing."""

ALL = (
    *KNOWLEDGE,
    SKILL_RUN,
    SKILL_EXEC,
    SKILL_WRITE_STDIN,
    SKILL_POLL_SESSION,
    SKILL_KILL_SESSION,
    WORKSPACE_EXEC,
    WORKSPACE_WRITE_STDIN,
    WORKSPACE_KILL_SESSION,
    WORKSPACE_SAVE_ARTIFACT,
)
"""Every tool, in the order in which a model is told of them."""

Profile = Literal["full", "knowledge_only"]

PROFILES: Mapping[Profile, tuple[str, ...]] = MappingProxyType({"full": ALL, "knowledge_only": KNOWLEDGE})

NEEDS: Mapping[str, str] = MappingProxyType(
    {
        SKILL_EXEC: SKILL_RUN,
        SKILL_WRITE_STDIN: SKILL_EXEC,
        SKILL_POLL_SESSION: SKILL_EXEC,
        SKILL_KILL_SESSION: SKILL_EXEC,
        WORKSPACE_WRITE_STDIN: WORKSPACE_EXEC,
        WORKSPACE_KILL_SESSION: WORKSPACE_EXEC,
    }
)
"""Tools that are of no use without another one."""


def chosen_tools(profile: str, allowed: Collection[str] | None, *, saves: bool) -> tuple[str, ...]:
    """Returns the tools that are offered: those of the profile, or those that `allowed` names in its place.

    `saves` is whether there is an artifact store. Raises SettingsError for an unknown profile or tool, and for a tool
    without the one that it needs.
    """
    if allowed is None:
        names = _of_profile(profile)
        return tuple(name for name in names if saves or name != WORKSPACE_SAVE_ARTIFACT)
    _check(allowed, saves=saves)
    return tuple(name for name in ALL if name in allowed)


def _of_profile(profile: str) -> tuple[str, ...]:
    for name, tools in PROFILES.items():
        if name == profile:
            return tools
    raise SettingsError(
        f"the workspace tools have no profile {profile!r}", hint=f"choose one of: {', '.join(PROFILES)}"
    )


def _check(allowed: Collection[str], *, saves: bool) -> None:
    if not allowed:
        raise SettingsError("the list of workspace tools is empty", hint="leave it out, or name some")
    for name in sorted(allowed):
        if name not in ALL:
            raise SettingsError(
                f"there is no workspace tool {name!r}", hint=f"the tools are: {', '.join(ALL)}"
            )
        needed = NEEDS.get(name)
        if needed is not None and needed not in allowed:
            raise SettingsError(f"{name} is of no use without {needed}", hint=f"allow {needed} as well")
    if WORKSPACE_SAVE_ARTIFACT in allowed and not saves:
        raise SettingsError(f"{WORKSPACE_SAVE_ARTIFACT} needs an artifact store, and there is none")
