"""What tools a run has: those of a toolbox and the caller's own, as one."""

from __future__ import annotations

import logging
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from anyio import to_thread

from sandbox_skills.controller.calls import NAME
from sandbox_skills.controller.request import ToolDefinition
from sandbox_skills.errors import SettingsError
from sandbox_skills.toolsets.base import ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sandbox_skills.catalog.manifest_json import JsonObject
    from sandbox_skills.controller.loop import Wait
    from sandbox_skills.controller.own_tools import OwnTool
    from sandbox_skills.engines.base import OutputSink
    from sandbox_skills.toolsets.base import Conversation, ToolCall
    from sandbox_skills.toolsets.toolbox import Toolbox

logger = logging.getLogger(__name__)


class Tools:
    """The tools of one agent. Raises SettingsError for a name that no provider takes, or that two tools have."""

    def __init__(self, toolbox: Toolbox | None = None, own: Sequence[OwnTool] = ()) -> None:
        self._toolbox = toolbox
        self._own = {tool.name: tool for tool in own}
        offered = [tool.name for tool in toolbox.tools()] if toolbox is not None else []
        _check([*(tool.name for tool in own), *offered])

    async def definitions(self, conversation: Conversation) -> tuple[ToolDefinition, ...]:
        """Returns the tools that a conversation has now."""
        own = tuple(ToolDefinition(t.name, t.description, t.parameters) for t in self._own.values())
        if self._toolbox is None:
            return own
        offered = await to_thread.run_sync(self._toolbox.tools, conversation)
        for tool in offered:
            if not NAME.fullmatch(tool.name):
                logger.warning("a tool is not offered, as no provider takes its name: %r", tool.name)
        taken = (tool for tool in offered if NAME.fullmatch(tool.name) and tool.name not in self._own)
        return own + tuple(ToolDefinition(t.name, t.description, t.parameters) for t in taken)

    async def waits(self, call: ToolCall, conversation: Conversation) -> Wait | None:
        """Returns what a call waits for before it may run."""
        own = self._own.get(call.name)
        if own is not None:
            return "manual" if own.execute is None else "approval" if own.needs_approval else None
        if self._toolbox is None:
            return None
        asks = await to_thread.run_sync(self._toolbox.approval, call, conversation)
        return "approval" if asks else None

    async def run(
        self,
        call: ToolCall,
        conversation: Conversation,
        *,
        approved: bool,
        on_output: OutputSink,
        say: Callable[[str], None],
    ) -> ToolResult:
        """Answers a call; only a cancel raises."""
        own = self._own.get(call.name)
        if own is not None:
            return await own.run(call, say)
        if self._toolbox is not None:
            return await self._toolbox.call(call, conversation, on_output=on_output, approved=approved)
        names = ", ".join(self._own) or "none"
        text = f"Error: no tool is named {call.name[:128]!r}. The tools are: {names}."
        return ToolResult(text, status="rejected", code="tool_not_found", is_error=True)

    async def prompt(self, conversation: Conversation, query: str) -> str:
        """Returns what the tools have to say in the instructions."""
        if self._toolbox is None:
            return ""
        return await to_thread.run_sync(partial(self._toolbox.prompt, conversation, query=query))

    async def rewritten(self, items: Sequence[JsonObject], conversation: Conversation) -> list[JsonObject]:
        """Returns the items of a request with what is loaded put where it belongs."""
        if self._toolbox is None:
            return list(items)
        return await to_thread.run_sync(self._toolbox.rewritten, items, conversation)

    def run_started(self, conversation: Conversation) -> None:
        """Says that a turn of the user's begins."""
        if self._toolbox is not None:
            self._toolbox.run_started(conversation)

    def request_made(self, conversation: Conversation) -> None:
        """Says that the model was asked."""
        if self._toolbox is not None:
            self._toolbox.request_made(conversation)


def _check(names: Sequence[str]) -> None:
    for name, count in Counter(names).items():
        if not NAME.fullmatch(name):
            raise SettingsError(
                f"no provider takes the tool name {name[:128]!r}",
                hint="Use at most 64 letters, digits, _ and -.",
            )
        if count > 1:
            raise SettingsError(f"two tools are named {name}")
