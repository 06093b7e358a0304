"""Files of the workspace that are kept on request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.errors import InputError
from sandbox_skills.spec import WORKSPACE
from sandbox_skills.toolsets.arguments import read_arguments
from sandbox_skills.toolsets.base import ToolResult
from sandbox_skills.toolsets.workspace_tools.arguments import SaveArguments
from sandbox_skills.toolsets.workspace_tools.results import artifacts_delta
from sandbox_skills.workspace.save_file import savable_path, save_file

if TYPE_CHECKING:
    from sandbox_skills.toolsets.base import CallContext, ToolCall
    from sandbox_skills.toolsets.workspace_tools.parts import Parts


async def save(parts: Parts, call: ToolCall, context: CallContext) -> ToolResult:
    """Answers `workspace_save_artifact`."""
    path = savable_path(read_arguments(SaveArguments, call).path)
    if parts.artifacts is None:
        raise InputError("there is no artifact store here")
    session = await parts.runs.workspace(context.conversation)
    with session.held() as held:
        saved = await save_file(
            held.sandbox,
            path,
            parts.artifacts,
            tenant=context.conversation.tenant,
            max_bytes=parts.options.artifact_bytes,
        )
    return ToolResult(
        {
            "path": str(path.relative_to(WORKSPACE)),
            "saved_as": saved.name,
            "version": saved.version,
            "ref": saved.ref,
            "mime_type": saved.mime_type,
            "size_bytes": saved.size,
        },
        display=f"Saved {saved.ref}",
        state_delta=artifacts_delta((saved,), context.call_id),
        artifacts=(saved,),
    )
