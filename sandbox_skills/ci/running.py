"""Trials beside each other, results in their order, whoever is done first."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox_skills.ci.results import TrialReport, TrialResult, settled
from sandbox_skills.ci.trial import Sandboxed
from sandbox_skills.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from sandbox_skills.ci.trial import Trial

NOT_BEGUN = "not begun: another case had failed (--fail-fast)"
NO_SANDBOX = "not begun: no sandbox can be had any more"


@dataclass(frozen=True, slots=True)
class RunningRules:
    """How trials are run: how many at once, how often each, and whether the first that fails is the last begun."""

    jobs: int = 1
    repeat: int = 1
    fail_fast: bool = False


class Running:
    """Runs trials; `attempt` makes one attempt, `on_result` is told of each result in the trials' order."""

    def __init__(
        self,
        trials: Sequence[Trial],
        attempt: Callable[[Trial], Awaitable[TrialResult]],
        rules: RunningRules,
        on_result: Callable[[TrialResult], None],
    ) -> None:
        self._trials = trials
        self._attempt = attempt
        self._rules = rules
        self._on_result = on_result
        self._results: list[TrialResult | None] = [None] * len(trials)
        self._told = 0
        self._failed = False
        self._fault: EngineError | None = None

    async def run(self) -> TrialReport:
        """Returns all results.

        An EngineError of an attempt is one that the next would have as well: those under way go on, no other sandbox is
        begun, and the report has it. Raises as `attempt` does else; then every other attempt is cancelled first.
        """
        started = time.monotonic()
        waiting = iter(enumerate(self._trials))
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._rules.jobs, len(self._trials))):
                    group.create_task(self._work(waiting))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        results = tuple(one for one in self._results if one is not None)
        return TrialReport(results, time.monotonic() - started, self._fault)

    async def _work(self, waiting: Iterator[tuple[int, Trial]]) -> None:
        for index, trial in waiting:
            result = await self._result(trial)
            self._failed |= result.status in {"failed", "flaky", "error"}
            self._results[index] = result
            self._tell()

    async def _result(self, trial: Trial) -> TrialResult:
        if self._fault is not None and isinstance(trial.work, Sandboxed):
            return TrialResult(trial, "skipped", reason=NO_SANDBOX)
        if self._failed and self._rules.fail_fast:
            return TrialResult(trial, "skipped", reason=NOT_BEGUN)
        try:
            return await self._settled(trial)
        except EngineError as error:
            self._fault = self._fault or error
            return TrialResult(trial, "error", reason=f"{error.message} ({error.code})")

    async def _settled(self, trial: Trial) -> TrialResult:
        times = self._rules.repeat if isinstance(trial.work, Sandboxed) else 1
        return settled([await self._attempt(trial) for _ in range(times)])

    def _tell(self) -> None:
        """Hands on what is done, up to the first that is not: so reports are the same however long each took."""
        while self._told < len(self._results) and (done := self._results[self._told]) is not None:
            self._told += 1
            self._on_result(done)
