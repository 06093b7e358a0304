"""Skills → everything that is to be shown of them; a file of cases that is wrong in any way stops all. Blocking."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_skills.catalog import check_call, handler_input, load_manifest
from sandbox_skills.ci.files import image_size
from sandbox_skills.ci.json_values import find
from sandbox_skills.ci.smoke import broken_trial, smoke_trials
from sandbox_skills.ci.suite_files import read_skill_suite
from sandbox_skills.ci.trial import Sandboxed, Skipped, Trial
from sandbox_skills.errors import RequestError, ScriptNotFoundError, SuiteError, Violation
from sandbox_skills.spec import WORKSPACE
from sandbox_skills.workspace.commands import scripts_hint
from sandbox_skills.workspace.handlers import handler_request
from sandbox_skills.workspace.interpreters import read_head, script_argv
from sandbox_skills.workspace.layout import WORK_DIR
from sandbox_skills.workspace.manager import Script, Shell
from sandbox_skills.workspace.paths import relative_inside

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sandbox_skills.catalog import SkillSpec
    from sandbox_skills.ci.discovery import FoundSkill
    from sandbox_skills.ci.suite import Case
    from sandbox_skills.ci.suite_text import PlacedCase
    from sandbox_skills.spec import Guarantee, Limits


@dataclass(frozen=True, slots=True)
class PlanRules:
    """What cases may have: no limit above the usual ones, no time above the ceiling, what the engine guarantees."""

    limits: Limits
    wall_ceiling: float
    guarantees: frozenset[Guarantee]


def plan_trials(skills: Iterable[FoundSkill], rules: PlanRules) -> list[Trial]:
    """Returns the trials of all skills in their order, the usual checks before the cases of each.

    Raises SuiteError with every violation of the first bad file; then nothing is to be run.
    """
    return [trial for found in skills for trial in _trials(found, rules)]


def _trials(found: FoundSkill, rules: PlanRules) -> Iterator[Trial]:
    spec = found.spec
    if spec is None:
        yield broken_trial(found.folder, found.file)
        return
    suite = read_skill_suite(spec)
    yield from smoke_trials(spec, suite.smoke)
    for one in suite.cases:
        work = _work(spec, one, rules)
        yield Trial(spec.name, Path(spec.dir).resolve(), one.case.name, work, one.file, one.line)


def _work(spec: SkillSpec, placed: PlacedCase, rules: PlanRules) -> Sandboxed | Skipped:
    case = placed.case
    try:
        _check_limits(case, rules)
        _check_expectations(case)
        work = _sandboxed(spec, case)
    except (RequestError, ValueError) as error:
        told = error.message if isinstance(error, RequestError) else str(error)
        hint = error.hint if isinstance(error, RequestError) else ""
        raise SuiteError(placed.file, [Violation(case.name, told, placed.line)], hint=hint) from error
    if case.skip is not None:
        return Skipped(case.skip)
    lost = sorted(set(case.engine.needs) - rules.guarantees)
    return Skipped(f"the engine does not guarantee {', '.join(lost)}") if lost else work


def _check_limits(case: Case, rules: PlanRules) -> None:
    wall = case.limits.wall_seconds
    if wall is not None and wall > rules.wall_ceiling:
        raise ValueError(f"limits.wall_seconds: no run may take more than {rules.wall_ceiling:g} seconds")
    for name in ("stdout_bytes", "stderr_bytes", "output_bytes"):
        most, given = getattr(rules.limits, name), getattr(case.limits, name)
        if given is not None and given > most:
            raise ValueError(
                f"limits.{name}: no case may have more than the {most:,} of the settings (run.{name})"
            )


def _check_expectations(case: Case) -> None:
    """Refuses what could not be looked at later: JSONPaths that are none, what a missing package or nobody sees."""
    expect = case.expect
    for one in (expect.json_value, *(file.json_value for file in expect.files)):
        for path in one.paths if one is not None else ():
            find(path, None)
    if any(file.image is not None for file in expect.files):
        image_size(b"")


def _sandboxed(spec: SkillSpec, case: Case) -> Sandboxed:
    if case.run is not None:
        return Sandboxed(case, Shell(case.run))
    if case.script is not None:
        _check_script(spec, case.script)
        return Sandboxed(case, Script(case.script, case.args))
    tools = {tool.name: tool for tool in load_manifest(spec).tools}
    tool = tools.get(case.tool or "")
    if tool is None or tool.script is None:
        known = ", ".join(name for name, one in tools.items() if one.script is not None) or "none"
        raise ValueError(f"tool: the skill declares no tool {case.tool!r} with a script; there are: {known}")
    check_call(tool, case.arguments)
    request = handler_request(tool.script, handler_input(case.arguments, str(WORK_DIR)))
    return Sandboxed(case, request.invocation, request.stdin)


def _check_script(spec: SkillSpec, script: str) -> None:
    root = Path(spec.dir).resolve()
    try:
        script_argv(WORKSPACE, str(relative_inside(script)), (), read_head(root, script))
    except ScriptNotFoundError as error:
        raise ScriptNotFoundError(f"script: {error.message}", hint=scripts_hint(root, script)) from error
