"""What happened in a run, over the wire: as one JSON object, and as the two streams that carry it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ConfigDict, Field

from sandbox_skills.daemon.api.values import Outcome, Told, rfc3339

if TYPE_CHECKING:
    from sandbox_skills.daemon.truth.run import RunEvent

SSE = "text/event-stream"
NDJSON = "application/x-ndjson"


class EventTold(Told):
    """Something that happened in a run. Kinds may be added; each has at least the first four names."""

    model_config = ConfigDict(
        frozen=True,
        extra="allow",
        json_schema_extra={
            "examples": [
                {
                    "seq": 3,
                    "run_id": "01JDZ6V7Z3M9QHTR4W8YB2C5KD",
                    "type": "output",
                    "at": "2026-11-28T09:00:00.031Z",
                    "stream": "stdout",
                    "text": "3 rows\n",
                }
            ]
        },
    )

    seq: int = Field(description="Counts from 1 in its run, without a hole.")
    run_id: str
    type: str = Field(
        description="`queued`, `started`, `output` (with `stream` and `text`), `gap` (`bytes` of output that came too "
        "fast to be kept), `cancel_requested`, `released`, and as the last `finished` (with `outcome`)."
    )
    at: str
    stream: Literal["stdout", "stderr"] | None = None
    text: str | None = None
    bytes: int | None = None
    outcome: Outcome | None = None


def event_dict(event: RunEvent) -> dict[str, Any]:
    """Returns an event as it is told. Pure."""
    head = {"seq": event.seq, "run_id": event.run_id, "type": event.kind, "at": rfc3339(event.at)}
    return head | {name: value for name, value in event.data.items() if name not in head}


def sse(event: RunEvent) -> bytes:
    """Returns an event as an event stream has it, with its number as the id to come back with. Pure."""
    data = json.dumps(event_dict(event), ensure_ascii=False, separators=(",", ":"))
    return f"id: {event.seq}\nevent: {event.kind}\ndata: {data}\n\n".encode(errors="replace")


def ndjson(event: RunEvent) -> bytes:
    """Returns an event as one line. Pure."""
    return (json.dumps(event_dict(event), ensure_ascii=False, separators=(",", ":")) + "\n").encode(
        errors="replace"
    )
