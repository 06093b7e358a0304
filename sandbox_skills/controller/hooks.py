"""Where a caller's own code takes part in a run: each is a coroutine, and None does nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sandbox_skills.controller.events import TurnFinished
    from sandbox_skills.controller.request import ModelRequest
    from sandbox_skills.controller.state import RunState
    from sandbox_skills.controller.stops import Progress
    from sandbox_skills.controller.turn import Turn
    from sandbox_skills.toolsets.base import ToolCall, ToolResult


@dataclass(frozen=True, slots=True)
class Hooks:
    """Called in the order of the fields. What one raises ends the run, but for those around tools: a call of theirs
    fails instead.

    `before_request` returns the request that is made. `before_tool` returns why a call is not to run, or None.
    `after_tool` returns the result that counts. `save` keeps the state: before a call starts, when it has its output,
    and when an answer came, so that nothing is run twice after a crash.
    """

    turn_started: Callable[[Progress], Awaitable[None]] | None = None
    before_request: Callable[[ModelRequest, Progress], Awaitable[ModelRequest]] | None = None
    after_model: Callable[[Turn], Awaitable[None]] | None = None
    before_tool: Callable[[ToolCall], Awaitable[str | None]] | None = None
    after_tool: Callable[[ToolCall, ToolResult], Awaitable[ToolResult]] | None = None
    turn_finished: Callable[[TurnFinished], Awaitable[None]] | None = None
    save: Callable[[RunState], Awaitable[None]] | None = None
