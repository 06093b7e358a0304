"""What a run of the loop came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from sandbox_skills.artifacts import Artifact
    from sandbox_skills.catalog.manifest_json import JsonObject
    from sandbox_skills.controller.loop import Wait
    from sandbox_skills.controller.state import RunState
    from sandbox_skills.controller.turn import Usage


@dataclass(frozen=True, slots=True)
class WaitingCall:
    """A call that waits: `approval` for a person's word, `manual` for an output that the caller brings."""

    id: str
    name: str
    arguments: JsonObject
    kind: Wait

    def as_dict(self) -> dict[str, object]:
        """Returns the call for JSON."""
        return {"id": self.id, "name": self.name, "arguments": self.arguments, "kind": self.kind}


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended, or that it waits.

    `stop` is why it ended: `completed`, the limit that was hit, `cancelled`, `refusal`, or what cut the last answer.
    `usage` is of this run, `total` of the whole conversation. `state` goes on from here.
    """

    status: Literal["done", "waiting"]
    stop: str
    text: str
    steps: int
    usage: Usage
    total: Usage
    state: RunState
    waiting: tuple[WaitingCall, ...] = ()
    artifacts: tuple[Artifact, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """Returns the result for JSON, without the state."""
        return {
            "status": self.status,
            "stop": self.stop,
            "text": self.text,
            "steps": self.steps,
            "usage": self.usage.as_dict(),
            "total": self.total.as_dict(),
            "waiting": [call.as_dict() for call in self.waiting],
            "artifacts": [one.ref for one in self.artifacts],
        }
