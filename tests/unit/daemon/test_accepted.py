"""What is remembered of runs that were just accepted: for a moment, once, and of a few."""

from __future__ import annotations

from dataclasses import dataclass

from sandbox_skills.daemon.service.accepted import MOMENT_SECONDS, MOST, AcceptedRun, AcceptedRuns
from sandbox_skills.daemon.service.run_order import RunOrder

RUN = AcceptedRun(RunOrder(skill="a", command="true"), None)


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_run_is_known_once() -> None:
    runs = AcceptedRuns()
    runs.keep("one", RUN)
    assert runs.take("one") is RUN
    assert runs.take("one") is None
    assert runs.take("another") is None


def test_what_was_read_a_while_ago_is_to_be_read_again() -> None:
    clock = Clock()
    runs = AcceptedRuns(clock)
    runs.keep("one", RUN)
    clock.now = MOMENT_SECONDS
    assert runs.take("one") is None


def test_runs_that_nobody_takes_up_do_not_grow() -> None:
    runs = AcceptedRuns()
    for number in range(MOST + 1):
        runs.keep(str(number), RUN)
    assert runs.take("0") is None
    assert runs.take("1") is RUN
