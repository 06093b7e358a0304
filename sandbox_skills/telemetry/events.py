"""What a tool call tells the conversation it belongs to."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class ToolResponse:
    """A `tool.response` event: one call of a tool and what it changed of the conversation's state.

    `state_delta` maps keys of the state to their new text; an empty text clears a key.
    """

    tool: str
    call_id: str
    status: Literal["ok", "rejected", "sandbox_error"]
    state_delta: Mapping[str, str] = field(default_factory=dict[str, str])
    code: str = ""
    seconds: float = 0.0

    def as_dict(self) -> dict[str, object]:
        """Returns the event for JSON."""
        return {"event": "tool.response", **asdict(self)}
