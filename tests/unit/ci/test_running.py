"""Trials beside each other: the order of results, what a failure stops, what several runs come to."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from sandbox_skills.ci.observed import Failure
from sandbox_skills.ci.results import Status, TrialReport, TrialResult, settled
from sandbox_skills.ci.running import NO_SANDBOX, NOT_BEGUN, Running, RunningRules
from sandbox_skills.ci.suite import Case
from sandbox_skills.ci.trial import Looked, Sandboxed, Trial
from sandbox_skills.errors import EngineUnavailableError
from sandbox_skills.workspace.manager import Shell

pytestmark = pytest.mark.anyio

FAILED = (Failure("exit", "why"),)


def trials(*names: str) -> list[Trial]:
    work = Sandboxed(Case(name="a", run="x"), Shell("x"))
    return [Trial("sums", Path("sums"), name, work) for name in names]


def result(trial: Trial, status: Status) -> TrialResult:
    return TrialResult(trial, status, FAILED if status == "failed" else ())


class Attempts:
    """Ends attempts in the order it is told to, and counts how many run at once."""

    def __init__(self, *order: str, failing: tuple[str, ...] = ()) -> None:
        self.begun: list[str] = []
        self.most = self._now = 0
        self._failing = failing
        self._ends = {name: anyio.Event() for name in order}
        self._order = order

    async def make(self, trial: Trial) -> TrialResult:
        self.begun.append(trial.name)
        self._now += 1
        self.most = max(self.most, self._now)
        if trial.name in self._order:
            before = self._order[: self._order.index(trial.name)]
            for name in before:
                await self._ends[name].wait()
            self._ends[trial.name].set()
        await anyio.lowlevel.checkpoint()
        self._now -= 1
        return result(trial, "failed" if trial.name in self._failing else "passed")


async def run(attempts: Attempts, names: str, rules: RunningRules) -> tuple[TrialReport, list[str]]:
    told: list[str] = []
    running = Running(trials(*names), attempts.make, rules, lambda one: told.append(one.trial.name))
    return await running.run(), told


async def test_results_come_in_the_order_of_trials_whoever_is_done_first() -> None:
    attempts = Attempts("c", "b", "a")
    report, told = await run(attempts, "abcd", RunningRules(jobs=3))
    assert told == ["a", "b", "c", "d"]
    assert [one.trial.name for one in report.results] == ["a", "b", "c", "d"]
    assert attempts.most == 3
    assert report.counts == {"passed": 4, "failed": 0, "flaky": 0, "error": 0, "skipped": 0}


async def test_one_at_a_time_is_one_at_a_time() -> None:
    attempts = Attempts()
    await run(attempts, "abcd", RunningRules(jobs=1))
    assert (attempts.most, attempts.begun) == (1, ["a", "b", "c", "d"])


async def test_a_failure_ends_nothing_unless_it_is_to_be_the_last() -> None:
    report, _ = await run(Attempts(failing=("a",)), "abc", RunningRules(jobs=1))
    assert [one.status for one in report.results] == ["failed", "passed", "passed"]
    attempts = Attempts(failing=("b",))
    report, told = await run(attempts, "abcd", RunningRules(jobs=1, fail_fast=True))
    assert [(one.status, one.reason) for one in report.results[1:]] == [
        ("failed", ""),
        ("skipped", NOT_BEGUN),
        ("skipped", NOT_BEGUN),
    ]
    assert (attempts.begun, told) == (["a", "b"], ["a", "b", "c", "d"])


async def test_no_trial_is_a_report_of_nothing() -> None:
    report, _ = await run(Attempts(), "", RunningRules(jobs=3))
    assert (report.results, report.skills) == ((), 0)


async def test_an_engine_that_goes_away_begins_nothing_more_and_leaves_what_has_run() -> None:
    begun: list[str] = []

    async def away(trial: Trial) -> TrialResult:
        begun.append(trial.name)
        if trial.name == "b":
            raise EngineUnavailableError("no daemon")
        return result(trial, "passed")

    look = Trial("sums", Path("sums"), "look", Looked(lambda: ()))
    running = Running([*trials("a", "b", "c"), look], away, RunningRules(jobs=1), lambda _: None)
    report = await running.run()
    assert [(one.trial.name, one.status, one.reason) for one in report.results] == [
        ("a", "passed", ""),
        ("b", "error", "no daemon (engine_unavailable)"),
        ("c", "skipped", NO_SANDBOX),
        ("look", "passed", ""),
    ]
    assert begun == ["a", "b", "look"]
    assert str(report.fault) == "no daemon"


async def test_what_is_no_error_of_an_engine_ends_all() -> None:
    async def broken(_: Trial) -> TrialResult:
        raise KeyError("a")

    running = Running(trials("a", "b"), broken, RunningRules(jobs=2), lambda _: None)
    with pytest.raises(KeyError):
        await running.run()


async def test_each_trial_is_run_as_often_as_asked() -> None:
    attempts = Attempts()
    report, _ = await run(attempts, "a", RunningRules(repeat=3))
    assert (attempts.begun, report.results[0].attempts) == (["a"] * 3, ("passed",) * 3)


@pytest.mark.parametrize(
    ("statuses", "status"),
    [
        (["passed", "passed"], "passed"),
        (["failed", "failed"], "failed"),
        (["passed", "failed", "passed"], "flaky"),
        (["failed", "passed"], "flaky"),
        (["passed", "error", "failed"], "error"),
    ],
)
def test_several_runs_come_to_one_result(statuses: list[Status], status: Status) -> None:
    (trial,) = trials("a")
    came = settled([result(trial, one) for one in statuses])
    assert (came.status, came.attempts) == (status, tuple(statuses))
    assert came.failures == (FAILED if status in {"failed", "flaky"} else ())
