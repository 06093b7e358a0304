"""The playground: conversations as a list, and one of them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox_skills.controller.loop import AS_TEXT
from sandbox_skills.controller.state import RunState
from sandbox_skills.daemon.ui.views.formatting import Time, counted, time_of
from sandbox_skills.daemon.ui.views.log_text import page_line
from sandbox_skills.daemon.ui.views.outcomes import Badge, Tone
from sandbox_skills.errors import ConversationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from sandbox_skills.daemon.service.agents import AgentRun
    from sandbox_skills.daemon.truth.agents import Agent
    from sandbox_skills.daemon.ui.views.conversations import Call, Said

APPROVALS = (("ask", "ask me where the policy says so"), ("never", "never ask me"))

MAX_TITLE = 200

_BADGES = {
    "queued": Badge("queued", Tone.QUIET),
    "running": Badge("running", Tone.LIVE),
    "waiting": Badge("waits for you", Tone.WARN),
    "finished": Badge("answered", Tone.GOOD),
    "interrupted": Badge("interrupted", Tone.WARN, "The server was restarted meanwhile."),
    "failed": Badge("failed", Tone.BAD),
    "cancelled": Badge("cancelled", Tone.QUIET),
}

_GOING = frozenset({"queued", "running"})
_CUT_OFF = frozenset({"failed", "interrupted", "cancelled"})

NO_EVENTS = "The beginning of this conversation is not kept any more."


@dataclass(frozen=True, slots=True)
class TalkRow:
    """One line of the list of conversations."""

    path: str
    asked: str
    model: str
    badge: Badge
    created: Time


@dataclass(frozen=True, slots=True)
class Playground:
    """The page on which a conversation begins."""

    notes: tuple[str, ...]
    model: str
    toolsets: tuple[str, ...]
    rows: tuple[TalkRow, ...]
    next: str
    approvals: tuple[tuple[str, str], ...] = APPROVALS


@dataclass(frozen=True, slots=True)
class TalkPage:
    """One conversation."""

    id: str
    badge: Badge
    about: str
    notes: tuple[str, ...]
    turns: tuple[Said | Call, ...]
    can_cancel: bool
    can_answer: bool
    can_speak: bool
    can_resume: bool
    stream: str


def talk_row(run: AgentRun, now: float) -> TalkRow:
    """Returns a conversation as one line."""
    said = said_by_user(run.agent)
    return TalkRow(
        f"/playground/{run.agent.id}",
        page_line(said[0][:MAX_TITLE]) if said else "a conversation",
        page_line(str(run.agent.request.get("model", ""))),
        _BADGES[run.state],
        time_of(run.agent.created_at, now),
    )


def talk_page(
    run: AgentRun, turns: Sequence[Said | Call], *, shown: int, complete: bool, base: str
) -> TalkPage:
    """Returns the page of a conversation; `shown` is the number of the last event that `turns` have."""
    going = run.state in _GOING
    return TalkPage(
        id=run.agent.id,
        badge=_BADGES[run.state],
        about=_about(run),
        notes=tuple(_notes(run, complete=complete)),
        turns=tuple(turns),
        can_cancel=going or run.state == "waiting",
        can_answer=run.state == "waiting",
        can_speak=run.state == "finished" or run.state in _CUT_OFF,
        can_resume=run.state in _CUT_OFF,
        stream=f"{base}/playground/{run.agent.id}/stream?after={shown}" if going else "",
    )


def said_by_user(agent: Agent) -> list[str]:
    """Returns what the user has said, the oldest first; nothing of a conversation that cannot be read any more."""
    said = _kept_words(agent.conversation) if agent.conversation is not None else []
    return said if agent.input is None else [*said, agent.input]


def _kept_words(conversation: str) -> list[str]:
    try:
        items = RunState.loads(conversation).loop.items
    except ConversationError:
        return []
    words = (item.get("content") for item in items if item.get("role") == "user")
    return [text for text in words if isinstance(text, str) and text != AS_TEXT]


def _about(run: AgentRun) -> str:
    usage: Mapping[str, Any] = run.result.get("total") or run.result.get("usage") or {}
    tokens = int(usage.get("input_tokens") or 0) + int(usage.get("output_tokens") or 0)
    parts = [
        str(run.agent.request.get("model", "")),
        ", ".join(map(str, run.agent.request.get("toolsets") or ())),
        counted(tokens, "token") if tokens else "",
        f"{float(usage['cost']):.4f} USD" if usage.get("cost") else "",
    ]
    return page_line(" · ".join(part for part in parts if part))


def _notes(run: AgentRun, *, complete: bool) -> Iterable[str]:
    if not complete:
        yield NO_EVENTS
    if run.state in {"failed", "interrupted"}:
        told = (str(run.outcome.get(name, "")) for name in ("message", "hint"))
        yield page_line(" · ".join(one for one in told if one))
    stop = str(run.result.get("stop", ""))
    if run.state == "finished" and stop not in {"", "completed"}:
        yield page_line(f"It ended because of: {stop.replace('_', ' ')}")
