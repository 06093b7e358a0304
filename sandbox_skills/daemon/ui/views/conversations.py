"""A conversation with a model as the playground shows it. Pure: events of the controller in, turns out."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from sandbox_skills.daemon.ui.views.formatting import duration
from sandbox_skills.daemon.ui.views.log_text import page_line, page_text
from sandbox_skills.daemon.ui.views.outcomes import Badge, Tone
from sandbox_skills.daemon.ui.views.runs import LogPiece
from sandbox_skills.daemon.ui.views.updates import Append, Renew

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
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


@dataclass(slots=True)
class Transcript:
    """What was said and done, in order."""

    turns: list[Said | Call]
    notes: list[str]


RUNNING = Badge("running", Tone.LIVE)
WAITS = Badge("waits for you", Tone.WARN)


def transcript(asked: str, events: Iterable[RunEvent]) -> Transcript:
    """Returns what came of a question; answers that broke off and were asked for again are left out."""
    reader = TranscriptReader(asked)
    for event in events:
        reader.take(event)
    return reader.transcript


class TranscriptReader:
    """Puts events into turns. An event that it does not know changes nothing."""

    def __init__(self, asked: str) -> None:
        turns: list[Said | Call] = [Said("you", page_text(asked))] if asked else []
        self.transcript = Transcript(turns, [])
        self._calls: dict[str, Call] = {}
        self._turn_began = len(turns)

    def take(self, event: RunEvent) -> Append | Renew | None:
        """Adds an event, and returns what a page has to do that showed all before it."""
        kind, data = event.kind, event.data
        match kind:
            case "text" | "reasoning":
                return self._say(kind, page_text(str(data.get("text", ""))))
            case "tool_output":
                return self._print(data)
            case "turn_started":
                self._turn_began = len(self._turns)
                return None
            case "turn_restarted":
                del self._turns[self._turn_began :]
            case "tool_started" | "approval_needed":
                self._begin(data, waits=kind == "approval_needed")
            case "tool_finished":
                self._end(data)
            case _:
                return None
        return Renew()

    @property
    def _turns(self) -> list[Said | Call]:
        return self.transcript.turns

    def _say(self, kind: str, text: str) -> Append | Renew:
        who: Literal["model", "reasoning"] = "model" if kind == "text" else "reasoning"
        last = self._turns[-1] if self._turns else None
        if isinstance(last, Said) and last.who == who:
            last.text += text
            return Append(last.id, "said", text)
        self._turns.append(Said(who, text, f"said-{len(self._turns)}"))
        return Renew()

    def _begin(self, data: Mapping[str, Any], *, waits: bool) -> None:
        call = self._calls.get(str(data.get("id", "")))
        if call is None:
            call = self._new_call(data)
        call.waits = waits
        call.badge = WAITS if waits else RUNNING

    def _new_call(self, data: Mapping[str, Any]) -> Call:
        own_id = str(data.get("id", ""))
        call = Call(
            own_id,
            f"call-{len(self._calls)}",
            page_line(str(data.get("name", ""))),
            _pretty(data.get("arguments") or {}),
            RUNNING,
        )
        self._calls[own_id] = call
        self._turns.append(call)
        return call

    def _print(self, data: Mapping[str, Any]) -> Append | None:
        call = self._calls.get(str(data.get("id", "")))
        if call is None:
            return None
        kind, text = _stream(data), page_text(str(data.get("text", "")))
        whole = call.output.pop().text + text if call.output and call.output[-1].kind == kind else text
        call.output.append(LogPiece(kind, whole[-MAX_SHOWN:]))
        return Append(call.log_id, kind, text)

    def _end(self, data: Mapping[str, Any]) -> None:
        call = self._calls.get(str(data.get("id", ""))) or self._new_call(data)
        call.waits = False
        call.badge = _end_badge(data)
        call.text = page_text(str(data.get("text", "")))[:MAX_SHOWN]
        call.took = duration(float(data.get("seconds") or 0))


def _stream(data: Mapping[str, Any]) -> str:
    return "stderr" if data.get("stream") == "stderr" else "stdout"


def _end_badge(data: Mapping[str, Any]) -> Badge:
    status = page_line(str(data.get("status", "ok"))).replace("_", " ")
    if status != "ok":
        return Badge(status, Tone.BAD)
    return Badge("failed", Tone.BAD) if data.get("is_error") else Badge("done", Tone.GOOD)


def _pretty(arguments: object) -> str:
    text = json.dumps(arguments, indent=2, ensure_ascii=False, default=str)
    return page_text(text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "\n…")
