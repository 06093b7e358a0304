"""How a run stands, in one or two words with a tone. Pure: the API's vocabulary in, a badge out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from sandbox_skills.daemon.ui.views.log_text import page_line

if TYPE_CHECKING:
    from collections.abc import Mapping


class Tone(StrEnum):
    """How a badge is drawn; the words alone must do, for whoever sees no colours."""

    GOOD = "good"
    BAD = "bad"
    WARN = "warn"
    LIVE = "live"
    QUIET = "quiet"


@dataclass(frozen=True, slots=True)
class Badge:
    """Words for a state. `detail` is a sentence to go with it, empty where the words say all."""

    words: str
    tone: Tone
    detail: str = ""


def run_badge(state: str, outcome: Mapping[str, object] | None, *, cancelling: bool = False) -> Badge:
    """Returns how a run stands."""
    if state == "finished":
        return outcome_badge(outcome)
    if cancelling:
        return Badge("cancelling", Tone.WARN)
    if state == "running":
        return Badge("running", Tone.LIVE)
    return Badge(page_line(state), Tone.QUIET)


def outcome_badge(outcome: Mapping[str, object] | None) -> Badge:
    """Returns how a finished run ended."""
    if outcome is None:
        return Badge("finished", Tone.QUIET)
    match outcome:
        case {"type": "exited", "code": code}:
            return Badge(f"exit {code}", Tone.BAD if code else Tone.GOOD)
        case {"type": "signalled", "signal": signal}:
            return Badge(f"signal {signal}", Tone.BAD)
        case {"type": "stopped", "reason": reason}:
            return Badge(f"stopped: {_words(reason)}", Tone.WARN)
        case {"type": "sandbox_error" | "rejected" as kind}:
            return Badge(_words(kind), Tone.BAD, _detail(outcome))
        case _:
            return Badge(_words(outcome.get("type", "finished")), Tone.QUIET, _detail(outcome))


def _words(name: object) -> str:
    return page_line(str(name)).replace("_", " ")


def _detail(outcome: Mapping[str, object]) -> str:
    parts = (str(outcome[name]) for name in ("message", "reason", "hint") if outcome.get(name))
    return page_line(" · ".join(parts))
