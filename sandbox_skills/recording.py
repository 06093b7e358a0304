"""What was seen of a run by a recorder outside its processes. Plain values; every text is the skill's, or its doing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Recorded = Literal["network", "files", "programs"]
"""What can be recorded of a run; each has its price, that of `files` for every file that is opened."""

EventKind = Literal["connect", "lookup", "program", "read", "write"]


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that a run tried `count` times, whether it came about or not.

    `what` is an address, a name that was looked up, or a path; "" where the program could not be looked into.
    `detail` is the port of an address, or the command line that a program was first started with.
    """

    kind: EventKind
    what: str
    detail: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True)
class Recording:
    """All that was seen. `lost` counts by kind what there was no more room for."""

    events: tuple[Event, ...] = ()
    lost: Mapping[EventKind, int] = field(default_factory=dict[EventKind, int])

    def of(self, *kinds: EventKind) -> tuple[Event, ...]:
        """Returns the events of some kinds, in the order in which each was first seen."""
        return tuple(event for event in self.events if event.kind in kinds)

    def as_dict(self) -> dict[str, object]:
        """Returns the one spelling of a recording, for JSON."""
        events = [
            {"kind": one.kind, "what": one.what, "detail": one.detail, "count": one.count}
            for one in self.events
        ]
        return {"events": events, "lost": dict(self.lost)}
