"""One call of a tool: run with its timeout, its output told while it comes, its result capped."""

from __future__ import annotations

import codecs
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import anyio

from sandbox_skills.controller.events import ToolFinished, ToolOutput, ToolStarted
from sandbox_skills.controller.own_tools import failed_result
from sandbox_skills.controller.spans import tool_span
from sandbox_skills.toolsets.base import ToolCall, ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from sandbox_skills.controller.events import RunEvent
    from sandbox_skills.controller.hooks import Hooks
    from sandbox_skills.controller.options import ControllerOptions
    from sandbox_skills.controller.tools import Tools
    from sandbox_skills.controller.turn import ModelCall
    from sandbox_skills.toolsets.base import Conversation

    Emit = Callable[[RunEvent], None]

Stream = Literal["stdout", "stderr"]


@dataclass(frozen=True, slots=True)
class Caller:
    """Runs calls of one conversation."""

    tools: Tools
    options: ControllerOptions
    hooks: Hooks
    conversation: Conversation
    emit: Emit

    async def run(self, made: ModelCall, *, approved: bool) -> ToolResult:
        """Answers a call; only a cancel raises."""
        call = ToolCall(made.name, made.arguments, made.id)
        self.emit(ToolStarted(made.id, made.name, made.arguments))
        started = time.monotonic()
        with tool_span(made.name[:64], made.id):
            try:
                result = await self._run(call, approved=approved)
            except Exception as error:  # a hook's; tools tell theirs  # noqa: BLE001
                result = failed_result(call.name, error)
        self.emit(
            ToolFinished(
                id=made.id,
                name=made.name,
                text=result.text,
                status=result.status,
                is_error=result.is_error,
                seconds=round(time.monotonic() - started, 6),
                display=result.display,
                artifacts=result.artifacts,
            )
        )
        return result

    async def _run(self, call: ToolCall, *, approved: bool) -> ToolResult:
        if self.hooks.before_tool is not None and (reason := await self.hooks.before_tool(call)) is not None:
            return ToolResult(reason, status="rejected", code="hook_refused", is_error=True)
        result = await self._in_time(call, approved=approved)
        if self.hooks.after_tool is not None:
            result = await self.hooks.after_tool(call, result)
        return self._capped(result)

    async def _in_time(self, call: ToolCall, *, approved: bool) -> ToolResult:
        seconds = self.options.seconds_of_tool.get(call.name, self.options.tool_seconds)
        output = LiveText(call.id, self.emit)
        with anyio.move_on_after(seconds):
            return await self.tools.run(
                call, self.conversation, approved=approved, on_output=output, say=output.say
            )
        text = f"Error: {call.name} was stopped after {seconds:g} seconds; it may have done a part."
        return ToolResult(text, code="tool_timeout", is_error=True)

    def _capped(self, result: ToolResult) -> ToolResult:
        text, most = result.text, self.options.max_tool_output
        if len(text) <= most:
            return result
        return replace(result, content=f"{text[:most]}\n[output truncated: {most} of {len(text)} characters]")


class LiveText:
    """Takes what a call prints, as an OutputSink, and tells it as text; pieces end anywhere, within a character too."""

    def __init__(self, call_id: str, emit: Emit) -> None:
        self._id = call_id
        self._emit = emit
        new = codecs.getincrementaldecoder("utf-8")
        self._decoders = {"stdout": new("replace"), "stderr": new("replace")}

    def __call__(self, stream: Stream, data: bytes, /) -> None:
        if text := self._decoders[stream].decode(data):
            self._emit(ToolOutput(self._id, stream, text))

    def say(self, text: str) -> None:
        """Tells progress."""
        self._emit(ToolOutput(self._id, "progress", text))
