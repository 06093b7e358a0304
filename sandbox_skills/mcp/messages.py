"""Tools and results as MCP spells them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from mcp import types

from sandbox_skills.catalog.text import printable

if TYPE_CHECKING:
    from sandbox_skills.artifacts import Artifact
    from sandbox_skills.toolsets.base import Tool, ToolResult


def mcp_tool(tool: Tool) -> types.Tool:
    """Returns a tool as `tools/list` has it. Nothing that runs here reaches a network, so no tool is open-world."""
    return types.Tool(
        name=tool.name,
        description=printable(tool.description),
        input_schema=tool.parameters,
        output_schema=tool.result,
        annotations=types.ToolAnnotations(
            read_only_hint=tool.effect == "read",
            destructive_hint=tool.effect != "read",
            open_world_hint=False,
        ),
    )


def mcp_result(result: ToolResult, *, structured: bool) -> types.CallToolResult:
    """Returns a result as `tools/call` has it: text, a link to each artifact, and the object where it has a schema."""
    content: list[types.ContentBlock] = [types.TextContent(text=printable(result.text))]
    content += [_link(artifact) for artifact in result.artifacts]
    plain = result.content if structured and isinstance(result.content, dict) else None
    return types.CallToolResult(content=content, structured_content=plain, is_error=result.is_error)


def artifact_uri(artifact: Artifact) -> str:
    """Returns the address under which an artifact's version can be read."""
    return f"artifact://{quote(artifact.name)}@{artifact.version}"


def _link(artifact: Artifact) -> types.ResourceLink:
    return types.ResourceLink(
        name=printable(artifact.name),
        uri=artifact_uri(artifact),
        mime_type=artifact.mime_type or None,
        size=artifact.size,
    )
