"""The toolset `resources`: a skill's instructions and its files, read on demand by an agent with an allowlist."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from anyio import to_thread
from pydantic import Field

from sandbox_skills.catalog import (
    list_skill_resources,
    read_skill_resource,
)
from sandbox_skills.catalog.resources import MAX_RESOURCE
from sandbox_skills.catalog.text import one_line, printable
from sandbox_skills.errors import SkillNotFoundError
from sandbox_skills.toolsets.arguments import Arguments, read_arguments, schema_of
from sandbox_skills.toolsets.base import Subject, Tool, ToolResult
from sandbox_skills.toolsets.bodies import body_of, repeated, repeated_note
from sandbox_skills.toolsets.overview import render_block

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sandbox_skills.catalog import ResourcePage, SkillResources, SkillSpec
    from sandbox_skills.catalog.manifest_json import JsonObject, JsonValue
    from sandbox_skills.errors import SandboxSkillsError
    from sandbox_skills.toolsets.base import CallContext, Conversation, ToolCall
    from sandbox_skills.toolsets.offered import OfferedSkills

LOAD = "skill_load"
RESOURCE = "skill_resource"

_MAX_SHOWN = 128
"""Characters of a name that are repeated: twice the longest there may be."""


class LoadArguments(Arguments):
    """What `skill_load` takes."""

    name: str = Field(description="Name of the skill")


class ResourceArguments(Arguments):
    """What `skill_resource` takes."""

    name: str = Field(description="Name of the skill")
    resource: str = Field(
        default="",
        description="File to read, relative to the skill's directory, such as references/api.md;"
        " leave it out to list the files",
    )


_TOOLS = (
    Tool(
        LOAD,
        "Read the full instructions of a skill. Do so before you follow it for the first time.",
        schema_of(LoadArguments),
        effect="read",
    ),
    Tool(
        RESOURCE,
        "List the files that come with a skill, or read one of them.",
        schema_of(ResourceArguments),
        effect="read",
    ),
)


class ResourcesToolset:
    """Answers `skill_load` and `skill_resource`. Both look only; a name that is not allowed is denied.

    `hint_resources` ends instructions with a pointer to the skill's files; `max_bytes` bounds what is read of one.
    """

    name = "resources"

    def __init__(
        self, skills: OfferedSkills, *, hint_resources: bool = True, max_bytes: int = MAX_RESOURCE
    ) -> None:
        self._skills = skills
        self._hint_resources = hint_resources
        self._max_bytes = max_bytes

    def tools(self, conversation: Conversation | None = None) -> tuple[Tool, ...]:
        """Returns both tools; none where there is no skill."""
        return _TOOLS if self._skills.list() else ()

    def prompt(self, conversation: Conversation, *, query: str = "") -> str:
        """Returns the block that lists the skills."""
        return render_block(self._skills.list(), query=query)

    def subject(self, call: ToolCall, conversation: Conversation | None = None) -> Subject:
        """Returns the skill that the call names."""
        return Subject(call.name, skill=call.named("name"))

    async def call(self, call: ToolCall, context: CallContext) -> ToolResult:
        """Returns text, or the lists of files; raises RequestError for what is not there or leads out."""
        if call.name == LOAD:
            return await self._load(read_arguments(LoadArguments, call).name, context)
        asked = read_arguments(ResourceArguments, call)
        spec = await self._find(asked.name)
        if not asked.resource:
            return ToolResult(_listed(await to_thread.run_sync(list_skill_resources, spec)))
        read = partial(read_skill_resource, spec, asked.resource, max_bytes=self._max_bytes)
        return ToolResult(_read(await to_thread.run_sync(read), asked.resource))

    def refused(self, call: ToolCall, error: SandboxSkillsError) -> ToolResult:
        """Returns the denial as text, with what to do instead."""
        text = error.message
        if isinstance(error, SkillNotFoundError):
            text = f"the skill {one_line(call.named('name'), _MAX_SHOWN)!r} is not available to this agent"
        return ToolResult(f"Denied: {text}. {error.hint}".rstrip(), display=text)

    async def _find(self, name: str) -> SkillSpec:
        return await to_thread.run_sync(self._skills.require, name.strip())

    async def _load(self, name: str, context: CallContext) -> ToolResult:
        spec = await self._find(name)
        text = await to_thread.run_sync(self._instructions, spec)
        shown = one_line(spec.name, _MAX_SHOWN)
        seen, delta = repeated(context.conversation, spec.id, text)
        return ToolResult(
            repeated_note(shown) if seen else text, display=f"Loaded skill: {shown}", state_delta=delta
        )

    def _instructions(self, spec: SkillSpec) -> str:
        body = body_of(spec)
        found = list_skill_resources(spec) if self._hint_resources else None
        if not found or not (found.scripts or found.references or found.assets):
            return body
        return f"{body}\n\n{_hint(spec, found)}"


def _hint(spec: SkillSpec, found: SkillResources) -> str:
    groups = {"scripts": found.scripts, "references": found.references, "assets": found.assets}
    counts = ", ".join(f"{len(names)} in {group}/" for group, names in groups.items() if names)
    name = one_line(spec.name, _MAX_SHOWN)
    return f"This skill comes with files ({counts}). List or read them with {RESOURCE}, name {name!r}."


def _listed(found: SkillResources) -> JsonObject:
    listed: JsonObject = {
        "scripts": _names(found.scripts),
        "references": _names(found.references),
        "assets": _names(found.assets),
        "other": _names(found.other),
    }
    if found.truncated:
        listed["truncated"] = True
    return listed


def _names(names: Iterable[str]) -> list[JsonValue]:
    return [printable(name) for name in names]


def _read(page: ResourcePage, resource: str) -> str:
    shown = one_line(resource, _MAX_SHOWN)
    if page.text is None:
        return f"[{shown} is no text: {page.size:,} bytes. Use it from a script of the skill.]"
    if page.next_offset is None:
        return page.text
    return f"{page.text}\n[truncated: these are the first {page.next_offset:,} of {page.size:,} bytes of {shown}]"
