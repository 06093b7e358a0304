"""`test`: the cases of skills, and the checks that every skill gets, run and reported."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sandbox_skills.catalog import default_roots
from sandbox_skills.ci.attempt import Attempts
from sandbox_skills.ci.discovery import find_skills
from sandbox_skills.ci.inline import inline_directory
from sandbox_skills.ci.junit import junit_xml
from sandbox_skills.ci.kept import check_folder, keep
from sandbox_skills.ci.markdown import markdown
from sandbox_skills.ci.plan import PlanRules, plan_trials
from sandbox_skills.ci.results import TrialReport
from sandbox_skills.ci.running import Running, RunningRules
from sandbox_skills.ci.schema import suite_schema
from sandbox_skills.ci.selection import changed_skills, chosen, parse_shard, shard
from sandbox_skills.ci.trial import Sandboxed
from sandbox_skills.cli.event_loop import run_async
from sandbox_skills.cli.exits import FAILED, SANDBOX_FAILED
from sandbox_skills.cli.terminal import NOTES, err, print_json
from sandbox_skills.cli.testing_view import view_of
from sandbox_skills.cli.text import harmless_line
from sandbox_skills.cli.validate import write_sarif
from sandbox_skills.errors import CommandError, EngineError, InputError
from sandbox_skills.install.validate import Report, validate
from sandbox_skills.settings import current_directory, job_summary_file
from sandbox_skills.spec import LOCAL_TENANT
from sandbox_skills.wiring import opened, sandbox_spec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandbox_skills.ci.discovery import FoundSkill
    from sandbox_skills.ci.trial import Trial
    from sandbox_skills.cli.options import GlobalOptions
    from sandbox_skills.cli.testing_view import View
    from sandbox_skills.settings import Settings


@dataclass(frozen=True, slots=True)
class RunTestsOptions:
    """The options of `test`, as they were given."""

    paths: tuple[Path, ...] = ()
    jobs: int | None = None
    words: tuple[str, ...] = ()
    fail_fast: bool = False
    changed_since: str | None = None
    shard: str | None = None
    repeat: int = 1
    update: bool = False
    junit: Path | None = None
    sarif: Path | None = None
    summary: Path | None = None
    artifacts: Path | None = None


def print_schema() -> int:
    """Prints the JSON Schema of a file of cases."""
    print_json(suite_schema())
    return 0


def run_tests(options: GlobalOptions, wanted: RunTestsOptions) -> int:
    """Runs what was chosen, and returns 0 where all passed, 1 for a failure, 125 where a sandbox failed.

    Raises EngineError where none could be had any more; what had run until then is in the reports.
    """
    settings = options.settings()
    _check_targets(wanted)
    part = parse_shard(wanted.shard) if wanted.shard is not None else (1, 1)
    skills = find_skills(_paths(settings, wanted.paths), max_directories=settings.skills.max_directories)
    if wanted.changed_since is not None:
        skills = changed_skills(skills, wanted.changed_since)
    trials = shard(_named(plan_trials(skills, _rules(settings)), wanted), *part)
    jobs = wanted.jobs or len(os.sched_getaffinity(0))
    boxes = sum(isinstance(one.work, Sandboxed) for one in trials) * wanted.repeat
    running = options.settings({"pool.size": str(min(jobs, boxes))})
    if settings.engine in NOTES and not options.as_json:
        err.print(f"engine {settings.engine}: {NOTES[settings.engine]}")
    view = view_of(len(trials), as_json=options.as_json)
    with view:
        report = run_async(_run(running, trials, wanted, jobs, view))
    view.end(report)
    _write_reports(report, skills, wanted)
    if report.fault is not None:
        raise report.fault
    return SANDBOX_FAILED if report.count("error") else FAILED if _has_failed(report) else 0


async def _run(
    settings: Settings, trials: Sequence[Trial], wanted: RunTestsOptions, jobs: int, view: View
) -> TrialReport:
    rules = RunningRules(jobs, wanted.repeat, wanted.fail_fast)
    report = TrialReport()
    with inline_directory(settings.data_dir) as place:
        try:
            async with opened(settings) as live:
                limits = settings.run_limits()
                attempts = Attempts(live.manager, limits, LOCAL_TENANT, place, update=wanted.update)
                report = await Running(trials, attempts.make, rules, view.show).run()
        except EngineError as error:
            if not report.results:
                raise
            return replace(report, fault=report.fault or error)
    return report


def _named(trials: Sequence[Trial], wanted: RunTestsOptions) -> list[Trial]:
    """Returns what `-k` names; raises CommandError for a word that is in nothing, which would pass unseen."""
    if wanted.changed_since is None:
        for word in wanted.words:
            if not chosen(trials, [word]):
                raise CommandError(
                    f"-k {word!r} is in the name of no case and no check",
                    hint="names are skill::name, as a run without -k prints them",
                )
    return chosen(trials, wanted.words)


def _has_failed(report: TrialReport) -> bool:
    return bool(report.count("failed") + report.count("flaky"))


def _rules(settings: Settings) -> PlanRules:
    guarantees = sandbox_spec(settings).needs
    return PlanRules(settings.run_limits(), settings.run.wall_ceiling_seconds, guarantees)


def _paths(settings: Settings, named: Sequence[Path]) -> list[Path]:
    """Returns what was named, else the roots of the settings, else the usual places that are there."""
    here = current_directory()
    if named or settings.skills.roots:
        return [here / path for path in named or settings.skills.roots]
    usual = [Path(root.path) for root in default_roots(here) if Path(root.path).is_dir()]
    if not usual:
        raise CommandError("no skills were named", hint="sandbox-skills test PATH")
    return usual


def _check_targets(wanted: RunTestsOptions) -> None:
    """Refuses reports that could not be written, before anything is run."""
    asked = {
        "--junit": wanted.junit,
        "--sarif": wanted.sarif,
        "--summary": wanted.summary,
        "GITHUB_STEP_SUMMARY": job_summary_file(),
    }
    for option, file in asked.items():
        if file is not None and (file.is_dir() or not file.absolute().parent.is_dir()):
            raise InputError(f"{option} {file}: a file cannot be written there", hint="make its folder first")
    if wanted.artifacts is not None:
        check_folder(wanted.artifacts)


def _write_reports(report: TrialReport, skills: Sequence[FoundSkill], wanted: RunTestsOptions) -> None:
    if wanted.junit is not None:
        _write(wanted.junit, junit_xml(report))
    if wanted.sarif is not None:
        write_sarif(_findings(skills), wanted.sarif)
    for summary in {file for file in (wanted.summary, job_summary_file()) if file is not None}:
        _write(summary, markdown(report).encode(errors="backslashreplace"), mode="ab")
    bad = [one for one in report.results if one.status in {"failed", "flaky", "error"}]
    if wanted.artifacts is not None and bad:
        keep(wanted.artifacts, bad)
        err.print(harmless_line(f"kept in {wanted.artifacts}: {len(bad)} of them"))


def _findings(skills: Sequence[FoundSkill]) -> Report:
    folders = [one.folder for one in skills]
    return validate(folders) if folders else Report(0, ())


def _write(file: Path, data: bytes, mode: Literal["wb", "ab"] = "wb") -> None:
    try:
        with file.open(mode) as target:
            target.write(data)
    except OSError as error:
        raise InputError(f"{file}: cannot be written: {error.strerror}") from error
