"""What a server keeps of how a run ended."""

from __future__ import annotations

from sandbox_skills.daemon.working.endings import finished
from sandbox_skills.spec import LimitName, Outcome, Stopped
from sandbox_skills.workspace.result import RunResult


def test_a_guess_and_a_sandbox_that_is_gone_are_told() -> None:
    hit: frozenset[LimitName] = frozenset({"disk", "memory"})
    outcome = Outcome(
        Stopped("memory"), limits_hit=hit, limits_guessed=frozenset({"disk"}), sandbox_lives=False
    )
    kept = finished(RunResult("r1", "sample", "", outcome, limits_hit=hit))
    assert kept.outcome == {"type": "stopped", "reason": "memory"}
    assert kept.limits_hit == ("disk", "memory")
    assert kept.result is not None
    assert (kept.result["limits_guessed"], kept.result["sandbox_lives"]) == (["disk"], False)
