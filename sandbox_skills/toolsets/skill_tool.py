"""The toolset `skill`: one tool that puts a skill's instructions into the conversation as a message beside it."""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING

from anyio import to_thread
from pydantic import Field

from sandbox_skills.catalog import render_skill_line
from sandbox_skills.catalog.text import one_line
from sandbox_skills.errors import SkillNotFoundError
from sandbox_skills.toolsets.arguments import Arguments, read_arguments, schema_of
from sandbox_skills.toolsets.base import Subject, Tool, ToolResult
from sandbox_skills.toolsets.bodies import body_of, repeated, repeated_note, skill_directory
from sandbox_skills.toolsets.overview import within_budget

if TYPE_CHECKING:
    from sandbox_skills.catalog import SkillSpec
    from sandbox_skills.errors import SandboxSkillsError
    from sandbox_skills.toolsets.base import CallContext, Conversation, ToolCall
    from sandbox_skills.toolsets.offered import OfferedSkills

SKILL = "skill"

_MAX_SHOWN = 128
"""Characters of a name that are repeated: twice the longest there may be."""


class SkillArguments(Arguments):
    """What `skill` takes."""

    skill: str = Field(description="The skill name to execute")


_SCHEMA = schema_of(SkillArguments)


class SkillToolset:
    """Answers `skill` with two messages: that it runs, for the user, and its instructions, for the model alone."""

    name = "skill"

    def __init__(self, skills: OfferedSkills) -> None:
        self._skills = skills

    def tools(self, conversation: Conversation | None = None) -> tuple[Tool, ...]:
        """Returns the one tool, whose description lists the skills; none where there is no skill."""
        offered = self._skills.list()
        return (Tool(SKILL, _description(offered), _SCHEMA, effect="read"),) if offered else ()

    def prompt(self, conversation: Conversation, *, query: str = "") -> str:
        """Returns "": the tool's description says all."""
        return ""

    def subject(self, call: ToolCall, conversation: Conversation | None = None) -> Subject:
        """Returns the skill that the call names."""
        return Subject(call.name, skill=call.named("skill"))

    async def call(self, call: ToolCall, context: CallContext) -> ToolResult:
        """Returns the messages; raises ToolCallError, SkillNotFoundError, SkillLoadError."""
        asked = read_arguments(SkillArguments, call).skill.strip()
        spec = await to_thread.run_sync(self._skills.require, asked)
        body = await to_thread.run_sync(body_of, spec)
        seen, delta = repeated(context.conversation, spec.id, body)
        text = repeated_note(_shown(spec.name)) if seen else _with_directory(spec, body)
        return ToolResult(
            json.dumps(_messages(spec, text), ensure_ascii=False),
            display=f"Loaded skill: {_shown(spec.name)}",
            state_delta=delta,
        )

    def refused(self, call: ToolCall, error: SandboxSkillsError) -> ToolResult:
        """Returns the error as text."""
        text = error.message
        if isinstance(error, SkillNotFoundError):
            text = f'Skill "{_shown(call.named("skill"))}" not found'
        return ToolResult(f"{text}. {error.hint}" if error.hint else text, display=text)


def _description(offered: tuple[SkillSpec, ...]) -> str:
    told, others = within_budget(offered, render_skill_line)
    tail = [f"- More skills, by name only: {others}"] if others else []
    lines = "\n".join([*told, *tail])
    return (
        "Execute a skill within the conversation\n\n"
        "Call it with the name of a skill when the task is what the skill is for; its instructions follow."
        f"\n\n<available_skills>\n{lines}\n</available_skills>"
    )


def _messages(spec: SkillSpec, text: str) -> list[dict[str, object]]:
    name = escape(_shown(spec.name))
    status = f"<command-message>{name} is running…</command-message>\n<command-name>{name}</command-name>"
    return [{"type": "text", "text": status}, {"type": "text", "text": text, "isMeta": True}]


def _with_directory(spec: SkillSpec, body: str) -> str:
    return f"Base directory for this skill: {skill_directory(spec)}\n\n{body}"


def _shown(name: str) -> str:
    return one_line(name, _MAX_SHOWN)
