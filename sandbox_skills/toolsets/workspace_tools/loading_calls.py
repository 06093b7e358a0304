"""Calls that put skills and their documents into a conversation. They start nothing.

What changes of the state is found out last, with nothing to wait for behind it: calls may overlap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyio import to_thread

from sandbox_skills.toolsets.arguments import read_arguments
from sandbox_skills.toolsets.base import ToolResult
from sandbox_skills.toolsets.bodies import repeated, repeated_note
from sandbox_skills.toolsets.workspace_tools.arguments import (
    ListDocsArguments,
    LoadArguments,
    SelectDocsArguments,
)
from sandbox_skills.toolsets.workspace_tools.docs import list_docs
from sandbox_skills.toolsets.workspace_tools.loaded import skill_text
from sandbox_skills.toolsets.workspace_tools.results import STUB

if TYPE_CHECKING:
    from sandbox_skills.catalog import SkillSpec
    from sandbox_skills.catalog.manifest_json import JsonObject
    from sandbox_skills.toolsets.base import CallContext, ToolCall
    from sandbox_skills.toolsets.workspace_tools.parts import Parts
    from sandbox_skills.toolsets.workspace_tools.state import Docs


async def load(parts: Parts, call: ToolCall, context: CallContext) -> ToolResult:
    """Answers `skill_load`."""
    asked = read_arguments(LoadArguments, call)
    spec = await parts.runs.find(asked.skill)
    delta = _loading(parts, asked, context, spec)
    told = f"{STUB}{spec.name}"
    if parts.options.place == "reply":
        docs = parts.loaded(context.conversation).after(delta).docs(spec.name)
        text = await to_thread.run_sync(skill_text, spec, docs)
        again, shown = repeated(context.conversation, spec.name, text)
        told += f"\n\n{repeated_note(spec.name) if again else text}"
        delta = {**_loading(parts, asked, context, spec), **shown}
    return ToolResult(told, display=f"Loaded skill: {spec.name}", state_delta=delta)


async def select_docs(parts: Parts, call: ToolCall, context: CallContext) -> ToolResult:
    """Answers `skill_select_docs`."""
    asked = read_arguments(SelectDocsArguments, call)
    spec = await parts.runs.find(asked.skill)
    chosen, delta = _selecting(parts, asked, context, spec)
    told: JsonObject = {"skill": spec.name, "mode": asked.chosen_mode}
    if parts.options.place == "reply":
        told["text"] = await to_thread.run_sync(skill_text, spec, chosen)
        chosen, delta = _selecting(parts, asked, context, spec)
    told |= {"include_all_docs": True} if chosen.all else {"selected_docs": list(chosen.names)}
    return ToolResult(told, display=f"Documents of {spec.name}: {asked.chosen_mode}", state_delta=delta)


async def list_documents(parts: Parts, call: ToolCall, _context: CallContext) -> ToolResult:
    """Answers `skill_list_docs`."""
    asked = read_arguments(ListDocsArguments, call)
    spec = await parts.runs.find(asked.skill)
    found = await to_thread.run_sync(list_docs, spec)
    return ToolResult(list(found), display=f"{len(found)} documents of {spec.name}")


def _loading(parts: Parts, asked: LoadArguments, context: CallContext, spec: SkillSpec) -> dict[str, str]:
    loaded = parts.loaded(context.conversation)
    return loaded.loading(spec.name, asked.docs, all_docs=asked.include_all_docs)


def _selecting(
    parts: Parts, asked: SelectDocsArguments, context: CallContext, spec: SkillSpec
) -> tuple[Docs, dict[str, str]]:
    loaded = parts.loaded(context.conversation)
    return loaded.selecting(spec.name, asked.docs, all_docs=asked.include_all_docs, mode=asked.chosen_mode)
