"""The names of every toolset's own tools: reserved, so that no skill can take `use_skill`, chosen or not. Pure."""

from __future__ import annotations

BUILTIN_TOOLS = frozenset(
    {
        "load_skill",
        "use_skill",
        "skill",
        "skill_load",
        "skill_resource",
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
        "define_tool",
        "remove_tool",
    }
)
