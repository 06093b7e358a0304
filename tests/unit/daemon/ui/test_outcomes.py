"""How a run stands, in words that need no colour."""

from __future__ import annotations

import pytest

from sandbox_skills.daemon.ui.views.outcomes import Badge, Tone, outcome_badge, run_badge


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        ({"type": "exited", "code": 0}, Badge("exit 0", Tone.GOOD)),
        ({"type": "exited", "code": 3}, Badge("exit 3", Tone.BAD)),
        ({"type": "signalled", "signal": 9}, Badge("signal 9", Tone.BAD)),
        ({"type": "stopped", "reason": "wall_time"}, Badge("stopped: wall time", Tone.WARN)),
        (
            {"type": "sandbox_error", "code": "sandbox_lost", "message": "it went", "reason": "restarted"},
            Badge("sandbox error", Tone.BAD, "it went · restarted"),
        ),
        (
            {"type": "rejected", "code": "policy_denied", "message": "no\nno", "hint": "ask"},
            Badge("rejected", Tone.BAD, "no no · ask"),
        ),
        ({"type": "something_new"}, Badge("something new", Tone.QUIET)),
        (None, Badge("finished", Tone.QUIET)),
        ({}, Badge("finished", Tone.QUIET)),
    ],
)
def test_endings(outcome: dict[str, object] | None, expected: Badge) -> None:
    assert outcome_badge(outcome) == expected


def test_states() -> None:
    assert run_badge("queued", None) == Badge("queued", Tone.QUIET)
    assert run_badge("running", None) == Badge("running", Tone.LIVE)
    assert run_badge("running", None, cancelling=True) == Badge("cancelling", Tone.WARN)
    assert run_badge("finished", {"type": "exited", "code": 0}, cancelling=True) == Badge("exit 0", Tone.GOOD)
