"""What a model and its tools tell, on its way into the run's log: words and output that follow each other as one."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from sandbox_skills.daemon.truth.run import NewEvent
from sandbox_skills.daemon.working.gathering import EVENT_CHARS, MAX_EVENTS, Gathering

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandbox_skills.controller.events import RunEvent
    from sandbox_skills.daemon.working.gathering import Append

JOINED = frozenset({"text", "reasoning", "tool_output"})
"""Events whose texts are pieces of one: a model sends a hundred a second."""

MAX_WAITING = 1_000
"""Events that wait to be written; the one who tells more waits, so that a log that is slow slows the model down."""


class AgentEvents:
    """The events of a controller, which `voice` takes, go into a log while they come, until `end`."""

    def __init__(self, append: Append) -> None:
        self._waiting: deque[NewEvent] = deque()
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._gathering = Gathering(append, arrived=self._arrived.wait, taken=self._taken)

    async def voice(self, event: RunEvent) -> None:
        """Takes one event; waits where too many do."""
        while len(self._waiting) >= MAX_WAITING and not self._gathering.over:
            self._room.clear()
            await self._room.wait()
        told = event.as_dict()
        kind = str(told.pop("event"))
        if kind in JOINED and self._waiting and _goes_on(self._waiting[-1], kind, told):
            before = self._waiting.pop()
            told["text"] = before.data["text"] + told["text"]
        self._waiting.append(NewEvent(kind, told))
        self._arrived.set()
        self._gathering.begin()

    async def end(self) -> list[NewEvent]:
        """Returns what is not in the log yet; raises what `append` did."""
        self._arrived.set()
        self._room.set()
        await self._gathering.end()
        rest = list(self._waiting)
        self._waiting.clear()
        return rest

    def _taken(self) -> Sequence[NewEvent]:
        taken = [self._waiting.popleft() for _ in range(min(MAX_EVENTS, len(self._waiting)))]
        if not self._waiting:
            self._arrived.clear()
        self._room.set()
        return taken


def _goes_on(before: NewEvent, kind: str, told: dict[str, Any]) -> bool:
    """Tells whether a piece of text belongs to the one before it. Pure."""
    if before.kind != kind or len(before.data["text"]) >= EVENT_CHARS:
        return False
    return {**before.data, "text": ""} == {**told, "text": ""}
