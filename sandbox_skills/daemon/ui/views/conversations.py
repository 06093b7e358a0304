"""A conversation with a model as the playground shows it. Pure: events of the controller in, turns out."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from sandbox_skills.daemon.truth.run import QUEUED
from sandbox_skills.daemon.ui.views.formatting import duration
from sandbox_skills.daemon.ui.views.log_text import page_line, page_text
from sandbox_skills.daemon.ui.views.outcomes import Badge, Tone
from sandbox_skills.daemon.ui.views.runs import LogPiece
from sandbox_skills.daemon.ui.views.updates import Append, Renew

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from sandbox_skills.daemon.truth.run import RunEvent

MAX_SHOWN = 20_000
"""Characters of arguments or of one output that a page shows."""


@dataclass(slots=True)
class Said:
    """Text of one side. `id` is where more of it is added, empty for what is whole."""

    who: Literal["you", "model", "reasoning"]
    text: str
    id: str = ""


@dataclass(slots=True)
class Call:
    """One use of a tool. `waits` is whether a person's word is asked for."""

    id: str
    log_id: str
    name: str
    arguments: str
    badge: Badge
    output: list[LogPiece] = field(default_factory=list[LogPiece])
    text: str = ""
    took: str = ""
    waits: bool = False


RUNNING = Badge("running", Tone.LIVE)
WAITS = Badge("waits for you", Tone.WARN)


def transcript(said: Sequence[str], events: Sequence[RunEvent]) -> list[Said | Call]:
    """Returns what was said and done, in order; `said` is what the user said, the oldest first.

    Answers that broke off and were asked for again are left out.
    """
    reader = TranscriptReader(words_of_legs(said, events))
    for event in events:
        reader.take(event)
    return reader.turns


def words_of_legs(said: Sequence[str], events: Iterable[RunEvent]) -> list[str]:
    """Returns what the user said at the beginning of each leg, empty where it began with a word on a call.

    Whether something was said after a leg that failed its events do not tell: only where more was said than the other
    legs account for.
    """
    legs: list[bool | None] = []
    ended: bool | None = True
    for event in events:
        if event.kind == QUEUED:
            legs.append(ended)
            ended = None
        elif event.kind == "done":
            ended = event.data.get("status") != "waiting"
    left, spare = list(said), len(said) - legs.count(True)
    words: list[str] = []
    for begins in legs:
        speaks = begins is True or (begins is None and spare > 0)
        spare -= begins is None
        words.append(left.pop(0) if speaks and left else "")
    return words


class TranscriptReader:
    """Puts events into turns. An event that it does not know changes nothing.

    Elements are called by the number of their first event, so that a page and a stream call them alike.
    """

    def __init__(self, words: Sequence[str] = ()) -> None:
        self.turns: list[Said | Call] = []
        self._words = list(words)
        self._calls: dict[str, Call] = {}
        self._turn_began = 0

    def take(self, event: RunEvent) -> Append | Renew | None:
        """Adds an event, and returns what a page has to do that showed all before it."""
        match event.kind:
            case "text" | "reasoning" | "tool_output":
                return self._grow(event)
            case "turn_started":
                self._turn_began = len(self.turns)
                return None
            case "turn_restarted":
                del self.turns[self._turn_began :]
                self._calls = {call.id: call for call in self.turns if isinstance(call, Call)}
            case "tool_started" | "approval_needed" | "tool_finished":
                self._call_changed(event)
            case _ if event.kind == QUEUED:
                self._user_spoke()
            case _:
                return None
        return Renew()

    def _grow(self, event: RunEvent) -> Append | Renew | None:
        text = page_text(str(event.data.get("text", "")))
        if event.kind == "tool_output":
            return self._print(event.data, text)
        return self._say("model" if event.kind == "text" else "reasoning", text, event.seq)

    def _user_spoke(self) -> None:
        words = self._words.pop(0) if self._words else ""
        if words:
            self.turns.append(Said("you", page_text(words)))

    def _say(self, who: Literal["model", "reasoning"], text: str, seq: int) -> Append | Renew:
        last = self.turns[-1] if self.turns else None
        if isinstance(last, Said) and last.who == who:
            last.text += text
            return Append(last.id, "said", text)
        self.turns.append(Said(who, text, f"said-{seq}"))
        return Renew()

    def _call_changed(self, event: RunEvent) -> None:
        own_id = str(event.data.get("id", ""))
        call = self._calls.get(own_id) or self._new_call(own_id, event)
        call.waits = event.kind == "approval_needed" and event.data.get("kind") != "manual"
        match event.kind:
            case "approval_needed":
                call.badge = WAITS
            case "tool_started":
                call.badge = RUNNING
            case _:
                _end(call, event.data)

    def _new_call(self, own_id: str, event: RunEvent) -> Call:
        name, arguments = page_line(str(event.data.get("name", ""))), _pretty(event.data.get("arguments", {}))
        call = Call(own_id, f"call-{event.seq}", name, arguments, RUNNING)
        self._calls[own_id] = call
        self.turns.append(call)
        return call

    def _print(self, data: Mapping[str, Any], text: str) -> Append | None:
        call = self._calls.get(str(data.get("id", "")))
        if call is None:
            return None
        kind = "stderr" if data.get("stream") == "stderr" else "stdout"
        whole = call.output.pop().text + text if call.output and call.output[-1].kind == kind else text
        call.output.append(LogPiece(kind, whole[-MAX_SHOWN:]))
        return Append(call.log_id, kind, text)


def _end(call: Call, data: Mapping[str, Any]) -> None:
    call.badge = _end_badge(data)
    call.text = page_text(str(data.get("text", "")))[:MAX_SHOWN]
    call.took = duration(float(data.get("seconds") or 0))


def _end_badge(data: Mapping[str, Any]) -> Badge:
    status = page_line(str(data.get("status", "ok"))).replace("_", " ")
    if status != "ok":
        return Badge(status, Tone.BAD)
    return Badge("failed", Tone.BAD) if data.get("is_error") else Badge("done", Tone.GOOD)


def _pretty(arguments: object) -> str:
    text = json.dumps(arguments, indent=2, ensure_ascii=False, default=str)
    return page_text(text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "\n…")
