"""The names of every toolset's own tools: reserved, so that no skill can take `use_skill`, chosen or not. Pure."""

from __future__ import annotations

from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

TOOLS_BY_TOOLSET: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "openrouter": ("load_skill", "use_skill"),
        "workspace": (
            "skill_load",
            "skill_select_docs",
            "skill_list_docs",
            "skill_run",
            "skill_exec",
            "skill_write_stdin",
            "skill_poll_session",
            "skill_kill_session",
            "workspace_exec",
            "workspace_write_stdin",
            "workspace_kill_session",
            "workspace_save_artifact",
        ),
        "resources": ("skill_load", "skill_resource"),
        "skill": ("skill",),
        "native": ("define_tool", "remove_tool", "load_skill"),
    }
)

BUILTIN_TOOLS = frozenset(chain.from_iterable(TOOLS_BY_TOOLSET.values()))
"""All of these names."""


def toolsets_with(tool: str) -> tuple[str, ...]:
    """Returns the toolsets that have a tool of this name of their own."""
    return tuple(toolset for toolset, names in TOOLS_BY_TOOLSET.items() if tool in names)
