"""What a tool call tells the conversation it belongs to."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping


ResponseStatus = Literal["ok", "rejected", "sandbox_error", "cancelled", "failed"]
"""`ok`: it was done. `rejected`: nothing was started. `cancelled`: it was given up. `failed`: none of the others."""


@dataclass(frozen=True, slots=True)
class ToolResponse:
    """A `tool.response` event: one call of a tool and what it changed of the conversation's state.

    `state_delta` maps keys of the state to their new text; an empty text clears a key. `session` is the conversation it
    is of; `time` is seconds since the epoch.
    """

    tool: str
    call_id: str
    status: ResponseStatus
    state_delta: Mapping[str, str] = field(default_factory=dict[str, str])
    code: str = ""
    seconds: float = 0.0
    tenant: str = ""
    session: str = ""
    time: float = field(default_factory=time.time)

    def recorded(self) -> ToolResponse:
        """Returns the event as it may be kept: which keys of the state changed, and not what they hold."""
        return replace(self, state_delta=dict.fromkeys(self.state_delta, ""))

    def as_dict(self) -> dict[str, object]:
        """Returns the event for JSON."""
        return {"event": "tool.response", **asdict(self)}
