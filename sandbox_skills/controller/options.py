"""How a controller behaves, beside the client and the tools it has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sandbox_skills.controller.defaults import CONCURRENCY, DEFAULT_STEPS, MAX_OUTPUT_TOKENS, MAX_TOOL_OUTPUT
from sandbox_skills.controller.history import drop_old_outputs
from sandbox_skills.controller.loop import Rules
from sandbox_skills.controller.stops import (
    after_cost,
    after_seconds,
    after_steps,
    after_tokens,
)
from sandbox_skills.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox_skills.catalog.manifest_json import JsonObject
    from sandbox_skills.controller.history import Trim
    from sandbox_skills.controller.request import ToolChoice
    from sandbox_skills.controller.stops import StopCondition


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    """What is asked of the model, and when a run ends. Any one limit ends it; None is no limit.

    With `max_seconds` the last answer has LAST_SECONDS at least; without it by then the run ends with what there is.
    `fallbacks`, `provider` and `reasoning` are OpenRouter's own. `tool_choice` holds for the first request of a run.
    `tool_seconds` bounds every call, `seconds_of_tool` those of one tool. `strict_final` makes an empty last answer
    an error. `inject_instructions` puts what a skill says of itself into the instructions, once, in place of the
    call's output; `forget` drops results that ask for it when the run is over. `trim` makes room in a conversation
    that is too long; loaded skills stay whatever it does. `sticky` keeps a conversation with one provider.
    """

    model: str
    fallbacks: tuple[str, ...] = ()
    instructions: str = ""
    provider: JsonObject | None = field(default=None, hash=False)
    reasoning: JsonObject | None = field(default=None, hash=False)
    temperature: float | None = None
    max_output_tokens: int = MAX_OUTPUT_TOKENS
    tool_choice: ToolChoice = "auto"
    parallel_tool_calls: bool | None = None
    max_steps: int | None = DEFAULT_STEPS
    max_tokens: int | None = None
    max_cost: float | None = None
    max_seconds: float | None = None
    stop_when: tuple[StopCondition, ...] = ()
    corrections: int = 2
    repeats: int = 4
    final_turn: bool = True
    strict_final: bool = False
    concurrency: int = CONCURRENCY
    tool_seconds: float | None = None
    seconds_of_tool: Mapping[str, float] = field(default_factory=dict[str, float], hash=False)
    max_tool_output: int = MAX_TOOL_OUTPUT
    inject_instructions: bool = False
    forget: bool = True
    trim: Trim = drop_old_outputs
    sticky: bool = True

    def __post_init__(self) -> None:
        if not self.model:
            raise SettingsError(
                "no model is chosen",
                hint="Set model.name, or name a model (--model): such as anthropic/claude-sonnet-4.5.",
            )

    def rules(self) -> Rules:
        """Returns how the loop behaves."""
        own = (
            *([after_steps(self.max_steps)] if self.max_steps is not None else []),
            *([after_tokens(self.max_tokens)] if self.max_tokens is not None else []),
            *([after_cost(self.max_cost)] if self.max_cost is not None else []),
            *([after_seconds(self.max_seconds)] if self.max_seconds is not None else []),
        )
        return Rules((*own, *self.stop_when), self.corrections, self.repeats, self.final_turn)
