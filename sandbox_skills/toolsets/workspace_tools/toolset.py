"""The `workspace` toolset: skills loaded into a conversation, and commands in one workspace that stays."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, cast

from sandbox_skills.errors import SessionBusyError, ToolNotFoundError
from sandbox_skills.toolsets.base import Subject
from sandbox_skills.toolsets.overview import render_hint, render_overview
from sandbox_skills.toolsets.workspace_tools import (
    loading_calls,
    names,
    program_calls,
    run_calls,
    save_calls,
    shell_calls,
)
from sandbox_skills.toolsets.workspace_tools.definitions import tools_for
from sandbox_skills.toolsets.workspace_tools.guidance import guidance
from sandbox_skills.toolsets.workspace_tools.items import in_results, in_system
from sandbox_skills.toolsets.workspace_tools.loaded import loaded_texts
from sandbox_skills.toolsets.workspace_tools.options import WorkspaceToolsOptions
from sandbox_skills.toolsets.workspace_tools.parts import Parts
from sandbox_skills.toolsets.workspace_tools.results import error_result
from sandbox_skills.toolsets.workspace_tools.state import COMPACTED, SUMMARISED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence

    from sandbox_skills.artifacts import ArtifactStore
    from sandbox_skills.catalog.manifest_json import JsonObject
    from sandbox_skills.errors import SandboxSkillsError
    from sandbox_skills.toolsets.base import CallContext, Conversation, Tool, ToolCall, ToolResult
    from sandbox_skills.toolsets.skill_runs import SkillRuns


class _Answer(Protocol):
    def __call__(self, parts: Parts, call: ToolCall, context: CallContext, /) -> Awaitable[ToolResult]: ...


_ANSWERS: Mapping[str, _Answer] = MappingProxyType(
    {
        names.SKILL_LOAD: loading_calls.load,
        names.SKILL_SELECT_DOCS: loading_calls.select_docs,
        names.SKILL_LIST_DOCS: loading_calls.list_documents,
        names.SKILL_RUN: run_calls.run,
        names.SKILL_EXEC: run_calls.start,
        names.SKILL_WRITE_STDIN: program_calls.write,
        names.SKILL_POLL_SESSION: program_calls.poll,
        names.SKILL_KILL_SESSION: program_calls.kill,
        names.WORKSPACE_EXEC: shell_calls.execute,
        names.WORKSPACE_WRITE_STDIN: program_calls.shell_write,
        names.WORKSPACE_KILL_SESSION: program_calls.kill,
        names.WORKSPACE_SAVE_ARTIFACT: save_calls.save,
    }
)


class WorkspaceToolset:
    """The tools of the workspace design, and what they do to a conversation's prompt.

    `artifacts` is where files are saved on request: the store of the runs. Raises SettingsError for options that make
    no sense.
    """

    name = "workspace"

    def __init__(
        self,
        runs: SkillRuns,
        *,
        options: WorkspaceToolsOptions | None = None,
        artifacts: ArtifactStore | None = None,
    ) -> None:
        chosen = options or WorkspaceToolsOptions()
        tools = names.chosen_tools(chosen.profile, chosen.allowed, saves=artifacts is not None)
        self._parts = Parts(runs, chosen, tools, artifacts)
        self._made: tuple[tuple[str, ...], tuple[Tool, ...]] = ((), ())

    def tools(self, conversation: Conversation | None = None) -> tuple[Tool, ...]:
        """Returns its tools with the names of the skills as they are now; none where there is no skill. Blocking."""
        skills = tuple(sorted(self._parts.runs.skills.names()))
        made, tools = self._made
        if made != skills:
            tools = tools_for(self._parts.chosen, skills) if skills else ()
            self._made = (skills, tools)
        return tools

    def prompt(self, conversation: Conversation, *, query: str = "") -> str:
        """Returns the overview of the skills, and how the tools are used. Blocking."""
        options, skills = self._parts.options, self._parts.runs.skills.list()
        if not skills:
            return ""
        lasts = options.lifetime == "session" or options.place == "reply"
        said = guidance(self._parts.chosen, lasts=lasts) if options.guidance is None else options.guidance
        overview = render_overview(skills, query=query, limit=options.overview_limit)
        # What changes with each request stands last: a provider's cache of prompts ends there.
        return "\n\n".join(part for part in (overview, said, render_hint(skills, query)) if part)

    def subject(self, call: ToolCall, conversation: Conversation | None = None) -> Subject:
        """Returns what a call is about."""
        taken = _texts(call.arguments)
        return Subject(call.name, skill=taken.get("skill", ""), command=taken.get("command", ""))

    async def call(self, call: ToolCall, context: CallContext) -> ToolResult:
        """Answers a call. Raises RequestError for one that cannot be done, EngineError where the sandbox failed."""
        if call.name not in self._parts.chosen:
            raise ToolNotFoundError(
                f"there is no tool {call.name!r}", hint=f"the tools are: {', '.join(self._parts.chosen)}"
            )
        try:
            return await _ANSWERS[call.name](self._parts, call, context)
        except SessionBusyError as error:
            # A model may have lost the id, and can do nothing without it.
            hint = await program_calls.how_to_end(self._parts, context.conversation)
            raise SessionBusyError(error.message, hint=hint or error.hint) from error

    def refused(self, call: ToolCall, error: SandboxSkillsError) -> ToolResult:
        """Returns what the model is told of an error."""
        return error_result(error)

    def run_started(self, conversation: Conversation) -> Mapping[str, str]:
        """Drops what was loaded for one turn, or for one request."""
        if self._parts.options.lifetime == "session":
            return {}
        return self._parts.loaded(conversation).dropped()

    def request_made(self, conversation: Conversation) -> Mapping[str, str]:
        """Takes out of the prompt what was loaded for one request; it may still be run in this turn."""
        return self._parts.loaded(conversation).used() if self._parts.options.lifetime == "once" else {}

    def rewritten(self, items: Sequence[JsonObject], conversation: Conversation) -> list[JsonObject]:
        """Returns the input of a model request with what is loaded in it. Blocking."""
        if self._parts.options.place == "reply":
            return list(items)
        texts = loaded_texts(self._parts.runs.skills, self._parts.loaded(conversation))
        if self._parts.options.place == "system":
            return in_system(items, "\n\n".join(texts.values()))
        state = conversation.state
        return in_results(items, texts, fallback=not state.get(SUMMARISED) or bool(state.get(COMPACTED)))


def _texts(arguments: object) -> dict[str, str]:
    """Returns those arguments of a call that are texts, whatever the arguments are."""
    if not isinstance(arguments, dict):
        return {}
    given = cast("dict[object, object]", arguments)
    return {str(key): value for key, value in given.items() if isinstance(value, str)}
