"""The `workspace` toolset, a package for its size: `toolset` joins the rest, `state` says what a conversation holds."""

from sandbox_skills.toolsets.workspace_tools.options import WorkspaceToolsOptions
from sandbox_skills.toolsets.workspace_tools.state import COMPACTED, SUMMARISED
from sandbox_skills.toolsets.workspace_tools.toolset import WorkspaceToolset

__all__ = ["COMPACTED", "SUMMARISED", "WorkspaceToolsOptions", "WorkspaceToolset"]
