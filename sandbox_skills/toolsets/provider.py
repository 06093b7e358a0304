"""What a caller's own loop works with: a system prompt, tools in its provider's form, and the answers to calls."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import anyio
from anyio import to_thread
from pydantic import BaseModel

from sandbox_skills.toolsets.base import Conversation, ToolCall
from sandbox_skills.toolsets.input_models import arguments_of, input_model
from sandbox_skills.toolsets.wire_formats import (
    ToolNames,
    decoded_arguments,
    definitions,
    read_calls,
    result_item,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Container, Iterable
    from contextlib import AbstractAsyncContextManager

    from sandbox_skills.catalog.manifest_json import JsonObject, JsonValue
    from sandbox_skills.toolsets.base import Tool, ToolResult
    from sandbox_skills.toolsets.offered import OfferedSkills
    from sandbox_skills.toolsets.toolbox import Toolbox
    from sandbox_skills.toolsets.wire_formats import WireFormat

    Arguments = Mapping[str, object] | str | None
    """Arguments of a call: an object, or the JSON text of one as providers send it."""

R_co = TypeVar("R_co", covariant=True)

PARALLEL_CALLS = 8
"""Calls of one conversation that are answered at the same time: a turn seldom has more, and they share one box."""


@dataclass(frozen=True)
class SdkTool(Generic[R_co]):
    """A tool for libraries that take functions. `execute` takes an `input_model`, or the arguments by keyword.

    It is awaited, unless a blocking provider gave it; it returns what the model is to read.
    """

    name: str
    description: str
    input_model: type[BaseModel]
    execute: Callable[..., R_co]


class SkillsProvider:
    """The tools of one agent in one conversation, whose calls share a workspace. Skills are looked at on every use.

    The properties block for as long as it takes to look at the status of the skills' files. `slot` gives what
    each call is to wait for; by default a few of the conversation's are answered at a time.
    """

    def __init__(
        self,
        toolbox: Toolbox,
        skills: OfferedSkills,
        conversation: Conversation,
        *,
        slot: Callable[[], AbstractAsyncContextManager[object]] | None = None,
    ) -> None:
        self._toolbox = toolbox
        self._skills = skills
        self.conversation = conversation
        slots = anyio.Semaphore(PARALLEL_CALLS)
        self._slot = slot or (lambda: slots)

    def for_conversation(self, conversation_id: str = "", *, agent: str = "") -> SkillsProvider:
        """Returns the same tools for another conversation, by default a new one with a workspace of its own."""
        chosen = Conversation(conversation_id or secrets.token_hex(8), self.conversation.tenant, agent)
        return SkillsProvider(self._toolbox, self._skills, chosen)

    @property
    def toolbox(self) -> Toolbox:
        """What a `Controller` takes, which then asks the model itself."""
        return self._toolbox

    @property
    def system_prompt(self) -> str:
        """The section of the system prompt that tells of the skills; "" where there is none."""
        return self._toolbox.prompt(self.conversation)

    @property
    def tools(self) -> list[JsonObject]:
        """The definitions of the tools as the Responses API takes them."""
        return self.tools_for("responses")

    def tools_for(self, wire_format: WireFormat) -> list[JsonObject]:
        """Returns the definitions of the tools, the caller's own copies, in the form of an API."""
        tools = self._toolbox.tools(self.conversation)
        return definitions(tools, wire_format, _names(tools))

    @property
    def sdk_tools(self) -> tuple[SdkTool[Awaitable[JsonValue]], ...]:
        """The tools as functions with typed arguments."""
        tools = self._toolbox.tools(self.conversation)
        names = _names(tools)
        return tuple(self._sdk_tool(tool, names.spell(tool.name)) for tool in tools)

    @property
    def skill_names(self) -> tuple[str, ...]:
        """The names of the skills that the model is offered."""
        return self._skills.names()

    def needs_approval(self, name: str, args: Arguments) -> bool:
        """Tells whether the policy wants a person asked before this call. Blocking."""
        return self._toolbox.approval(self._call(name, args), self.conversation)

    async def handle_tool_call(self, name: str, args: Arguments, *, approved: bool = False) -> JsonValue:
        """Returns what the model is to read of a call; whatever goes wrong is told there, and only a cancel raises.

        `approved` says that a person has allowed this call.
        """
        call = await to_thread.run_sync(self._call, name, args)
        return (await self._answer(call, approved=approved)).content

    async def maybe_handle_tool_call(
        self, name: str, args: Arguments, *, approved: bool = False
    ) -> JsonValue:
        """Returns what `handle_tool_call` does, None for a tool that is not one of these."""
        tools = await to_thread.run_sync(self._toolbox.tools, self.conversation)
        if _names(tools).read(name) not in {tool.name for tool in tools}:
            return None
        return await self.handle_tool_call(name, args, approved=approved)

    async def handle_tool_calls(
        self,
        calls: Iterable[object],
        wire_format: WireFormat = "responses",
        *,
        approved: Container[str] = (),
    ) -> list[JsonObject]:
        """Answers calls at the same time and returns the items to send back, in call order.

        `calls` are as the API gave them, as JSON or its library's objects: `response.output` (responses),
        `message.tool_calls` (chat), `message.content` (anthropic), `content.parts` (gemini). What is no call is
        passed over; every call gets one answer. `approved` holds the ids of calls that a person has allowed.
        """
        names = _names(await to_thread.run_sync(self._toolbox.tools, self.conversation))
        read = read_calls(calls, wire_format, names)
        results: dict[int, ToolResult] = {}

        async def answer(index: int, call: ToolCall) -> None:
            results[index] = await self._answer(call, approved=call.id in approved)

        async with anyio.create_task_group() as group:
            for index, call in enumerate(read):
                group.start_soon(answer, index, call)
        return [result_item(call, results[index], wire_format, names) for index, call in enumerate(read)]

    def _call(self, name: str, args: Arguments) -> ToolCall:
        given: object = dict(args) if isinstance(args, Mapping) else args  # a list of a model's is told to it
        return ToolCall(_names(self._toolbox.tools(self.conversation)).read(name), decoded_arguments(given))

    async def _answer(self, call: ToolCall, *, approved: bool = False) -> ToolResult:
        async with self._slot():
            return await self._toolbox.call(call, self.conversation, approved=approved)

    def _sdk_tool(self, tool: Tool, name: str) -> SdkTool[Awaitable[JsonValue]]:
        async def execute(
            params: BaseModel | Mapping[str, object] | None = None, /, **more: object
        ) -> JsonValue:
            given = arguments_of(params) if isinstance(params, BaseModel) else dict(params or {})
            return await self.handle_tool_call(tool.name, {**given, **more})

        return SdkTool(name, tool.description, input_model(tool), execute)


def _names(tools: Iterable[Tool]) -> ToolNames:
    return ToolNames.of(tool.name for tool in tools)
