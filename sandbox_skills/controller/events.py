"""What a run tells while it goes on: typed events, each of which is one JSON object as well."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from sandbox_skills.artifacts import Artifact
    from sandbox_skills.catalog.manifest_json import JsonObject
    from sandbox_skills.controller.result import RunResult
    from sandbox_skills.controller.turn import Usage
    from sandbox_skills.toolsets.base import Status


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all; `event` is its name."""

    event: ClassVar[str]

    def as_dict(self) -> dict[str, object]:
        """Returns the event for JSON."""
        return {"event": self.event, **{one.name: getattr(self, one.name) for one in fields(self)}}


@dataclass(frozen=True, slots=True)
class TextDelta(Event):
    """A piece of the answer's text."""

    event: ClassVar[str] = "text"
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta(Event):
    """A piece of the model's reasoning, or of its summary."""

    event: ClassVar[str] = "reasoning"
    text: str


ModelDelta = TextDelta | ReasoningDelta


@dataclass(frozen=True, slots=True)
class TurnStarted(Event):
    """The model is asked; `step` counts answers of this run from 1."""

    event: ClassVar[str] = "turn_started"
    step: int


@dataclass(frozen=True, slots=True)
class TurnRestarted(Event):
    """The answer broke off and is asked for again: what was shown of this turn is void."""

    event: ClassVar[str] = "turn_restarted"
    reason: str


@dataclass(frozen=True, slots=True)
class TurnFinished(Event):
    """The model has answered; `usage` is of this turn."""

    event: ClassVar[str] = "turn_finished"
    step: int
    text: str
    calls: int
    model: str
    usage: Usage

    def as_dict(self) -> dict[str, object]:
        """Returns the event for JSON."""
        return {**super(TurnFinished, self).as_dict(), "usage": self.usage.as_dict()}


@dataclass(frozen=True, slots=True)
class ToolStarted(Event):
    """A call is being run."""

    event: ClassVar[str] = "tool_started"
    id: str
    name: str
    arguments: JsonObject


@dataclass(frozen=True, slots=True)
class ToolOutput(Event):
    """A piece of what a call prints while it runs; `progress` is what a tool of the caller's says of its work."""

    event: ClassVar[str] = "tool_output"
    id: str
    stream: Literal["stdout", "stderr", "progress"]
    text: str


@dataclass(frozen=True, slots=True)
class ToolFinished(Event):
    """A call has its output, `text` as the model reads it. `display` is a line for people."""

    event: ClassVar[str] = "tool_finished"
    id: str
    name: str
    text: str
    status: Status
    is_error: bool
    seconds: float
    display: str = ""
    artifacts: tuple[Artifact, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """Returns the event for JSON."""
        return {**super(ToolFinished, self).as_dict(), "artifacts": [one.ref for one in self.artifacts]}


@dataclass(frozen=True, slots=True)
class ApprovalNeeded(Event):
    """A call waits: `kind` approval for a person's word, manual for an output that the caller brings."""

    event: ClassVar[str] = "approval_needed"
    id: str
    name: str
    arguments: JsonObject
    kind: Literal["approval", "manual"] = "approval"


@dataclass(frozen=True, slots=True)
class Done(Event):
    """The run is over, or waits; the last event."""

    event: ClassVar[str] = "done"
    result: RunResult

    def as_dict(self) -> dict[str, object]:
        """Returns the event for JSON, without the state."""
        return {"event": self.event, **self.result.as_dict()}


RunEvent = (
    TextDelta
    | ReasoningDelta
    | TurnStarted
    | TurnRestarted
    | TurnFinished
    | ToolStarted
    | ToolOutput
    | ToolFinished
    | ApprovalNeeded
    | Done
)
