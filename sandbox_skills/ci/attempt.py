"""One trial, once: in a sandbox of its own, or a look at the skill's files; what comes of it is a value."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from anyio import to_thread

from sandbox_skills.ci.bounded import compare_bounded
from sandbox_skills.ci.network import hosts_tried
from sandbox_skills.ci.observed import Behaviour, Failure, Observed
from sandbox_skills.ci.request import case_limits, given_files, run_request
from sandbox_skills.ci.results import TrialResult
from sandbox_skills.ci.snapshots import keep_snapshots, read_snapshots, snapshots_of
from sandbox_skills.ci.trial import SMOKE, Looked, Skipped
from sandbox_skills.engines.collecting import COLLECTION_LIMITS
from sandbox_skills.errors import (
    EngineError,
    EngineUnavailableError,
    GuaranteeError,
    ImageError,
    RecorderError,
    RequestError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sandbox_skills.ci.suite import Case
    from sandbox_skills.ci.trial import Sandboxed, Trial
    from sandbox_skills.spec import Limits
    from sandbox_skills.workspace.manager import RunResult, WorkspaceManager

HOPELESS = (EngineUnavailableError, ImageError, GuaranteeError)
"""Errors of a sandbox that the next one would have as well."""


@dataclass(frozen=True, slots=True)
class Attempts:
    """What attempts are made with.

    `limits` are the usual ones, `place` is where inline files lie meanwhile; `update` keeps snapshots as they are now.
    """

    manager: WorkspaceManager
    limits: Limits
    tenant: str
    place: Path
    update: bool = False

    async def make(self, trial: Trial) -> TrialResult:
        """Returns what comes of a trial. A sandbox that failed is a result.

        Raises EngineError where the next one would fail as well.
        """
        started = time.monotonic()
        work = trial.work
        if isinstance(work, Skipped):
            return TrialResult(trial, "skipped", reason=work.reason)
        if isinstance(work, Looked):
            failures = await to_thread.run_sync(work.look)
            return TrialResult(trial, _status(failures), failures, seconds=time.monotonic() - started)
        try:
            return await self._run(trial, work)
        except HOPELESS:
            raise
        except RecorderError as error:
            return _unrecorded(trial, error)
        except EngineError as error:
            told = f"{error.message} ({error.code})"
            return TrialResult(trial, "error", reason=told, seconds=time.monotonic() - started)
        except RequestError as error:
            failure = Failure(
                "run", f"it cannot be run: {error.message}{f'; {error.hint}' if error.hint else ''}"
            )
            return TrialResult(trial, "failed", (failure,), seconds=time.monotonic() - started)

    async def _run(self, trial: Trial, work: Sandboxed) -> TrialResult:
        folder = trial.folder
        with run_request(trial, work, limits=self.limits, place=self.place) as request:
            result = await self.manager.run(folder, request, tenant=self.tenant)
        case = work.case
        seen = _observed(result, case_limits(case.limits, self.limits), given_files(case, folder), case)
        expect = case.expect
        now = snapshots_of(expect, seen) if expect.snapshots and self.update else {}
        kept: Mapping[str, str | None] = now or await to_thread.run_sync(
            read_snapshots, folder, expect.snapshots
        )
        failures = await compare_bounded(expect, seen, kept)
        written: tuple[str, ...] = ()
        if now and not failures:
            written = await to_thread.run_sync(keep_snapshots, folder, now)
        seconds = result.outcome.wall_seconds
        return TrialResult(trial, _status(failures), failures, seconds=seconds, seen=seen, snapshots=written)


def _unrecorded(trial: Trial, error: RecorderError) -> TrialResult:
    """Returns what comes of a trial that cannot be watched: what an author demands fails, a usual check is left out."""
    usual = trial.name.startswith(SMOKE)
    return TrialResult(
        trial,
        "skipped" if usual else "error",
        reason=error.message if usual else f"{error.message} ({error.code})",
    )


def _status(failures: tuple[Failure, ...]) -> Literal["passed", "failed"]:
    return "failed" if failures else "passed"


def _observed(result: RunResult, limits: Limits, given: Mapping[str, bytes | None], case: Case) -> Observed:
    return Observed(
        outcome=result.outcome,
        limits=limits,
        files=result.files,
        skipped=result.skipped,
        limits_hit=result.limits_hit,
        hints=tuple(f"{hint} ({hint.advice})" for hint in result.hints),
        behaviour=_behaviour(result, given, case) if case.expect.behaviour is not None else Behaviour(),
    )


def _behaviour(result: RunResult, given: Mapping[str, bytes | None], case: Case) -> Behaviour:
    """Returns what a case asks of a run's behaviour, and None for what it does not ask."""
    expected, recording = case.expect.behaviour, result.outcome.recording
    network = None if recording is None else hosts_tried(recording)
    if expected is None or expected.writes is None:
        return Behaviour(network)
    return replace(_written(result, given), network=network)


def _written(result: RunResult, given: Mapping[str, bytes | None]) -> Behaviour:
    """Returns where a run wrote: each file of its workspace that it was not given as it is."""
    known = {path: content for path, content in given.items() if content is not None}
    brought = tuple(path for path, content in given.items() if content is None)
    writes = [
        str(file.path)
        for file in result.files
        if known.get(str(file.path)) != file.data and not _below(str(file.path), brought)
    ]
    complete = result.outcome.sandbox_lives and not result.limits_hit.intersection(COLLECTION_LIMITS)
    return Behaviour(writes=tuple(writes), complete=complete)


def _below(path: str, places: tuple[str, ...]) -> bool:
    return any(path == place or path.startswith(f"{place}/") for place in places)
