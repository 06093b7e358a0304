"""When a run of the loop ends before the model is done: conditions, each on its own enough. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from sandbox_skills.controller.turn import Usage

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Progress:
    """What one run has come to: answers, what they cost, seconds, and the tools that the last answer called."""

    steps: int = 0
    usage: Usage = field(default_factory=Usage)
    seconds: float = 0.0
    called: tuple[str, ...] = ()


class StopCondition(Protocol):
    """Returns why the run is to end now, or "" where it may go on. Called after each round of calls; must be pure."""

    def __call__(self, progress: Progress, /) -> str: ...


def after_steps(most: int) -> StopCondition:
    """Ends after that many answers."""
    return lambda progress: "max_steps" if progress.steps >= most else ""


def after_tokens(most: int) -> StopCondition:
    """Ends when that many tokens were used, input and output."""
    return lambda progress: "max_tokens" if progress.usage.total_tokens >= most else ""


def after_cost(most: float) -> StopCondition:
    """Ends when that many US dollars were spent; never where the server does not tell the cost."""
    return lambda progress: "max_cost" if progress.usage.cost >= most else ""


def after_seconds(most: float) -> StopCondition:
    """Ends when that much time has passed, waiting for approvals not counted."""
    return lambda progress: "max_seconds" if progress.seconds >= most else ""


def after_tool(name: str) -> StopCondition:
    """Ends when a tool was called."""
    return lambda progress: "tool_called" if name in progress.called else ""


def first_reason(conditions: Sequence[StopCondition], progress: Progress) -> str:
    """Returns the reason of the first condition that holds, or ""."""
    return next((reason for condition in conditions if (reason := condition(progress))), "")
