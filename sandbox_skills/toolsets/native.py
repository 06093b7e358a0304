"""The toolset `native`: every tool of every tools.json as a tool of its own, and tools that the model makes itself."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, cast
from weakref import WeakKeyDictionary

from anyio import to_thread
from pydantic import Field

from sandbox_skills.catalog import (
    DEFINE_TOOL,
    REMOVE_TOOL,
    check_call,
    handler_input,
    stub_message,
    tool_schema,
)
from sandbox_skills.catalog.text import one_line
from sandbox_skills.errors import PolicyError, ToolNotFoundError
from sandbox_skills.spec import KIB
from sandbox_skills.toolsets.arguments import Arguments, read_arguments, schema_of
from sandbox_skills.toolsets.base import Subject, Tool, ToolResult
from sandbox_skills.toolsets.bodies import body_of, repeated, repeated_note
from sandbox_skills.toolsets.declared import DeclaredTools
from sandbox_skills.toolsets.handler_answer import MAX_RESULT, handler_answer
from sandbox_skills.toolsets.overview import render_block
from sandbox_skills.toolsets.toolbox import approval_key
from sandbox_skills.workspace.handlers import handler_request
from sandbox_skills.workspace.layout import WORK_DIR

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox_skills.catalog import Diagnostic
    from sandbox_skills.catalog.manifest_json import JsonObject
    from sandbox_skills.errors import SandboxSkillsError
    from sandbox_skills.toolsets.base import CallContext, Conversation, ToolCall
    from sandbox_skills.toolsets.declared import DeclaredTool
    from sandbox_skills.toolsets.skill_runs import SkillRuns
    from sandbox_skills.toolsets.tool_making import ToolMaking

LOAD = "load_skill"

LOADERS: Mapping[str, str] = MappingProxyType(
    {"openrouter": "load_skill", "workspace": "skill_load", "resources": "skill_load", "skill": "skill"}
)
"""By toolset, the tool with which it loads skills."""

TIMEOUT_SECONDS = 30.0
"""As for a script of a skill: a tool that takes longer is better a command that can be looked at."""

_MAX_PLAIN = 16
"""Arguments of a short call: twice what most tools take."""

_MAX_SHOWN = 128
"""Characters of a name that are repeated: twice the longest there may be."""


class LoadArguments(Arguments):
    """What `load_skill` takes."""

    skill: str = Field(description="Name of the skill to load (folder name)")


_LOAD = Tool(
    LOAD,
    "Load the full instructions for a skill. Call this before using a skill for the first time.",
    schema_of(LoadArguments),
    effect="read",
)
_MAKING = tuple(
    Tool(spec.name, spec.description, tool_schema(spec), effect="write")
    for spec in (DEFINE_TOOL, REMOVE_TOOL)
)


class NativeToolset:
    """Runs the handlers of skills' tools in the sandbox.

    `loader` is the tool with which another chosen toolset loads skills, "" where none does: then it has `load_skill`.
    With `making`, tools can be defined and removed by the calls of its tenant; each conversation sees its own.
    `timeout` is seconds, `max_result` bytes of JSON.
    """

    name = "native"

    def __init__(
        self,
        runs: SkillRuns,
        *,
        loader: str = "",
        making: ToolMaking | None = None,
        timeout: float = TIMEOUT_SECONDS,
        max_result: int = MAX_RESULT,
    ) -> None:
        self._runs = runs
        self._loader = loader
        self._making = making
        self._timeout = timeout
        self._max_result = max_result
        self._declared = DeclaredTools()
        self._with_made: WeakKeyDictionary[object, DeclaredTools] = WeakKeyDictionary()

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What is wrong in the manifests of skills that were read last, and which tools gave way to others."""
        return self._declared.diagnostics

    def tools(self, conversation: Conversation | None = None) -> tuple[Tool, ...]:
        """Returns the tools of skills in the order of loading, then those of its own. Blocking."""
        declared = tuple(one.tool for one in self._current(conversation).values())
        own = _MAKING if self._making is not None else ()
        return (*declared, *own, *((_LOAD,) if self._loads() else ()))

    def prompt(self, conversation: Conversation, *, query: str = "") -> str:
        """Returns the block that lists the skills where this toolset is the one that loads them; else ""."""
        if not self._loads():
            return ""
        return render_block(self._runs.skills.list(), query=query)

    def subject(self, call: ToolCall, conversation: Conversation | None = None) -> Subject:
        """Returns the skill and the handler of a tool, as they were looked at last."""
        if call.name == LOAD:
            return Subject(call.name, skill=call.named("skill"))
        one = self._seen(conversation).known.get(call.name)
        if one is None:
            return Subject(call.name)
        return Subject(call.name, skill=one.skill.name, script=one.spec.script or "")

    async def call(self, call: ToolCall, context: CallContext) -> ToolResult:
        """Returns what the handler returned, or {"error": message} where it failed.

        Raises ToolCallError before anything starts, RequestError for what cannot be defined, removed or loaded, and
        as `SkillRuns.run` does.
        """
        self._check_tenant(context.conversation)
        if call.name == LOAD and not self._loader:
            return await self._load(call, context.conversation)
        if self._making is not None and call.name == DEFINE_TOOL.name:
            return await to_thread.run_sync(self._define, self._making, call, context.conversation)
        if self._making is not None and call.name == REMOVE_TOOL.name:
            return await to_thread.run_sync(self._remove, self._making, call, context.conversation)
        return await self._run(await self._checked(call, context.conversation), call, context)

    def refused(self, call: ToolCall, error: SandboxSkillsError) -> ToolResult:
        """Returns {"error": message}, next step included."""
        text = f"{error.message}. {error.hint}" if error.hint else error.message
        return ToolResult({"error": text}, display=error.message)

    def _current(self, conversation: Conversation | None) -> Mapping[str, DeclaredTool]:
        offered = self._runs.skills.list()
        made = () if self._making is None or conversation is None else self._making.skills(conversation)
        known = {spec.dir for spec in offered}
        more = tuple(spec for spec in made if spec.dir not in known)
        return self._seen(conversation).of((*offered, *more))

    def _seen(self, conversation: Conversation | None) -> DeclaredTools:
        """Returns what a conversation was offered last, which most have in common."""
        made = None if self._making is None or conversation is None else self._making.made_in(conversation)
        if made is None:
            return self._declared
        return self._with_made.setdefault(made, DeclaredTools())

    def _loads(self) -> bool:
        return not self._loader and bool(self._runs.skills.list())

    def _check_tenant(self, conversation: Conversation) -> None:
        if self._making is not None and conversation.tenant != self._making.tenant:
            raise PolicyError("these tools are another tenant's", hint="Make a toolset for each tenant.")

    async def _checked(self, call: ToolCall, conversation: Conversation) -> DeclaredTool:
        """Returns the tool that is called, as `tools` has found it, its arguments checked."""
        known = self._seen(conversation).known
        if call.name not in known:
            known = await to_thread.run_sync(self._current, conversation)
        if (one := known.get(call.name)) is None:
            raise ToolNotFoundError(f"no tool is named {one_line(call.name, _MAX_SHOWN)!r}")
        if _is_short(call.arguments):
            check_call(one.spec, call.arguments)
        else:
            await to_thread.run_sync(check_call, one.spec, call.arguments)
        return one

    async def _run(self, one: DeclaredTool, call: ToolCall, context: CallContext) -> ToolResult:
        if one.spec.script is None:
            return ToolResult(stub_message(one.spec, self._loader or LOAD))
        arguments: JsonObject = call.arguments  # type: ignore[assignment]  # `check_call` has seen to it
        text = handler_input(arguments, str(WORK_DIR))
        request = handler_request(one.spec.script, text, timeout=self._timeout)
        result = await self._runs.run(one.skill, request, context, tool=call.name)
        return handler_answer(result, max_bytes=self._max_result)

    def _define(self, making: ToolMaking, call: ToolCall, conversation: Conversation) -> ToolResult:
        made, definition = making.define(call, self._current(conversation), conversation)
        notes = [str(found) for found in definition.diagnostics]
        told: JsonObject = {
            "defined": made.tool.name,
            "persistent": made.persistent,
            "replaced": made.replaced,
        }
        return ToolResult(
            {**told, **({"notes": [*notes]} if notes else {})},
            display=f"Defined tool: {made.tool.name}",
            state_delta=_forgotten(made.tool.name, made.tool.skill),
        )

    def _remove(self, making: ToolMaking, call: ToolCall, conversation: Conversation) -> ToolResult:
        visible = self._current(conversation)
        name = making.remove(call, visible, conversation)
        return ToolResult(
            {"removed": name},
            display=f"Removed tool: {name}",
            state_delta=_forgotten(name, visible[name].skill.name),
        )

    async def _load(self, call: ToolCall, conversation: Conversation) -> ToolResult:
        spec = await self._runs.find(read_arguments(LoadArguments, call).skill.strip())
        body = await to_thread.run_sync(body_of, spec)
        shown = one_line(spec.name, _MAX_SHOWN)
        seen, delta = repeated(conversation, spec.id, body)
        text = repeated_note(shown) if seen else body
        return ToolResult(text, display=f"Loaded skill: {shown}", state_delta=delta)


def _is_short(arguments: object) -> bool:
    """Whether a check of them is done before a thread would have begun with it."""
    if not isinstance(arguments, dict):
        return True
    values = cast("dict[object, object]", arguments).values()
    plain = (str, int, float, bool, type(None))
    texts = sum(len(value) for value in values if isinstance(value, str))
    return len(values) <= _MAX_PLAIN and texts <= KIB and all(isinstance(value, plain) for value in values)


def _forgotten(tool: str, skill: str) -> dict[str, str]:
    """What a person has allowed was another code: the approval of a tool ends where it is made anew or removed."""
    return {approval_key(Subject(tool, skill=skill)): ""}
