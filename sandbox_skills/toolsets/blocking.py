"""The provider for programs without an event loop, and the one way to open either."""

from __future__ import annotations

from contextlib import AsyncExitStack, ExitStack
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from anyio.from_thread import start_blocking_portal

from sandbox_skills.toolsets.provider import SdkTool

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

    from anyio.from_thread import BlockingPortal

    from sandbox_skills.catalog.manifest_json import JsonObject, JsonValue
    from sandbox_skills.toolsets.base import Conversation
    from sandbox_skills.toolsets.provider import Arguments, SkillsProvider
    from sandbox_skills.toolsets.wire_formats import WireFormat

R = TypeVar("R")


class BlockingSkillsProvider:
    """A SkillsProvider for programs without an event loop: its calls are made on one that runs in a thread."""

    def __init__(self, provider: SkillsProvider, portal: BlockingPortal) -> None:
        self._provider = provider
        self._portal = portal

    def for_conversation(self, conversation_id: str = "", *, agent: str = "") -> BlockingSkillsProvider:
        """As `SkillsProvider.for_conversation`."""
        return BlockingSkillsProvider(
            self._provider.for_conversation(conversation_id, agent=agent), self._portal
        )

    @property
    def conversation(self) -> Conversation:
        """The conversation that the calls belong to."""
        return self._provider.conversation

    @property
    def system_prompt(self) -> str:
        """As `SkillsProvider.system_prompt`."""
        return self._provider.system_prompt

    @property
    def tools(self) -> list[JsonObject]:
        """As `SkillsProvider.tools`."""
        return self._provider.tools

    def tools_for(self, wire_format: WireFormat) -> list[JsonObject]:
        """As `SkillsProvider.tools_for`."""
        return self._provider.tools_for(wire_format)

    @property
    def sdk_tools(self) -> tuple[SdkTool[JsonValue], ...]:
        """As `SkillsProvider.sdk_tools`, but `execute` returns what the model is to read."""
        return tuple(
            SdkTool(tool.name, tool.description, tool.input_model, self._blocking(tool.execute))
            for tool in self._provider.sdk_tools
        )

    @property
    def skill_names(self) -> tuple[str, ...]:
        """As `SkillsProvider.skill_names`."""
        return self._provider.skill_names

    def needs_approval(self, name: str, args: Arguments) -> bool:
        """As `SkillsProvider.needs_approval`."""
        return self._provider.needs_approval(name, args)

    def handle_tool_call(self, name: str, args: Arguments, *, approved: bool = False) -> JsonValue:
        """As `SkillsProvider.handle_tool_call`."""
        return self._blocking(self._provider.handle_tool_call)(name, args, approved=approved)

    def maybe_handle_tool_call(self, name: str, args: Arguments, *, approved: bool = False) -> JsonValue:
        """As `SkillsProvider.maybe_handle_tool_call`."""
        return self._blocking(self._provider.maybe_handle_tool_call)(name, args, approved=approved)

    def handle_tool_calls(
        self, calls: Iterable[object], wire_format: WireFormat = "responses"
    ) -> list[JsonObject]:
        """As `SkillsProvider.handle_tool_calls`."""
        return self._blocking(self._provider.handle_tool_calls)(calls, wire_format)

    def _blocking(self, function: Callable[..., Awaitable[R]]) -> Callable[..., R]:
        def call(*args: object, **more: object) -> R:
            return self._portal.call(partial(function, *args, **more))

        return call


class OpeningProvider:
    """A provider that is not open yet: `async with` gives a SkillsProvider, `with` one that blocks.

    Leaving the block ends every sandbox of its own. Enter it once.
    """

    def __init__(self, opened: Callable[[], AbstractAsyncContextManager[SkillsProvider]]) -> None:
        self._opened = opened
        self._async_stack = AsyncExitStack()
        self._stack = ExitStack()

    async def __aenter__(self) -> SkillsProvider:
        return await self._async_stack.enter_async_context(self._opened())

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._async_stack.__aexit__(kind, error, trace)

    def __enter__(self) -> BlockingSkillsProvider:
        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal(name="skills"))
            provider = stack.enter_context(portal.wrap_async_context_manager(self._opened()))
            self._stack = stack.pop_all()
        return BlockingSkillsProvider(provider, portal)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._stack.__exit__(kind, error, trace)
