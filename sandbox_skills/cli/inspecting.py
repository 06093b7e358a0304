"""`inspect`: what a skill that nobody knows tries to do, and which of it is a surprise."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from rich.text import Text

from sandbox_skills.ci.discovery import find_skills
from sandbox_skills.ci.inspecting import commands_of, inspect_skill
from sandbox_skills.ci.inspection import UNSEEN
from sandbox_skills.cli.event_loop import run_async
from sandbox_skills.cli.request import limits
from sandbox_skills.cli.skills import find_skill
from sandbox_skills.cli.terminal import NOTES, err, out, print_json, working
from sandbox_skills.cli.text import counted, harmless_line
from sandbox_skills.errors import SkillNotFoundError
from sandbox_skills.settings import current_directory
from sandbox_skills.spec import LOCAL_TENANT, MIB, exit_code
from sandbox_skills.wiring import opened

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sandbox_skills.catalog import SkillSpec
    from sandbox_skills.ci.inspecting import Commands
    from sandbox_skills.ci.inspection import Finding, Inspection
    from sandbox_skills.cli.options import GlobalOptions
    from sandbox_skills.settings import Settings
    from sandbox_skills.spec import Limits

SHOWN = 40
"""Findings of one kind on a terminal; --json has all."""

MAX_COMMAND = 100

TITLES = {
    "network": "tried to reach",
    "program": "started",
    "write": "wrote, or tried to",
    "read": "read",
    "variable": "variables that scripts name",
}


def inspect(
    options: GlobalOptions,
    skill: str,
    argv: Sequence[str],
    command: str | None,
    timeout: float | None,
) -> int:
    """Runs a skill in view of a recorder and prints the report; 0 whatever it shows, as looking is no judgement."""
    settings = options.settings()
    spec = _skill(settings, skill)
    commands = commands_of(spec, argv, command)
    if settings.engine in NOTES and not options.as_json:
        err.print(f"engine {settings.engine}: {NOTES[settings.engine]}")
    report = run_async(_inspect(settings, spec, commands, limits(settings, timeout)))
    if options.as_json:
        print_json(report.as_dict())
    else:
        _print(report)
    return 0


async def _inspect(settings: Settings, spec: SkillSpec, commands: Commands, most: Limits) -> Inspection:
    with working("starting a sandbox") as progress:
        async with opened(settings, pooled=False) as live:
            return await inspect_skill(
                live.manager, spec, commands, most, tenant=LOCAL_TENANT, say=progress.say
            )


def _skill(settings: Settings, named: str) -> SkillSpec:
    """Returns the skill in a folder of that path, else the one of that name; a skill to look at needs no trust."""
    folder = current_directory() / named
    if not (folder / "SKILL.md").is_file():
        return find_skill(settings, named)
    (found,) = find_skills([folder], max_directories=settings.skills.max_directories)
    if found.spec is None:
        raise SkillNotFoundError(
            f"{named}: the skill cannot be loaded", hint=f"sandbox-skills validate {named}"
        )
    return found.spec


def _print(report: Inspection) -> None:
    for run in report.runs:
        one = run.outcome
        used = f"{one.wall_seconds:.2f} s, {one.cpu_seconds:.2f} s of processor, {one.max_rss / MIB:.0f} MiB"
        out.print(
            harmless_line(f"ran {run.command[:MAX_COMMAND]}: exit code {exit_code(one.ending)}, {used}")
        )
        if one.recording is None:
            out.print(Text("  what it did was lost with its sandbox", style="bold yellow"))
    for kind, group in groupby(report.findings, key=lambda one: one.kind):
        out.print()
        out.print(Text(TITLES[kind], style="bold"))
        findings = sorted(group, key=lambda one: not one.surprise)
        for finding in findings[:SHOWN]:
            out.print(_line(finding))
        if len(findings) > SHOWN:
            out.print(f"    and {len(findings) - SHOWN} more (--json)")
    out.print()
    for line in _end(report):
        err.print(harmless_line(line))


def _line(finding: Finding) -> Text:
    times = f" ({finding.count} times)" if finding.count > 1 else ""
    detail = f": {finding.detail[:MAX_COMMAND]}" if finding.detail else ""
    text = harmless_line(f"{finding.what or 'what could not be read'}{detail}{times}")
    if not finding.surprise:
        return Text(f"    {text}")
    return Text.assemble((f"  ! {text}", "bold yellow"), harmless_line(f" - {finding.surprise}"))


def _end(report: Inspection) -> Iterator[str]:
    yield counted(report.surprises, "surprise")
    for kind, count in report.lost.items():
        yield f"{kind}: {count} more than there was room for"
    if report.left_out:
        yield f"{counted(report.left_out, 'script')} more than are started: name each as a command"
    yield "not to be seen here:"
    yield from (f"  {line}" for line in UNSEEN)
