"""`run`: one command of one skill, in a sandbox of its own."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from sandbox_skills.catalog import list_skill_resources
from sandbox_skills.cli.event_loop import run_async
from sandbox_skills.cli.live import shown_live
from sandbox_skills.cli.report import EVERY_OUTPUT, report, unmatched_patterns
from sandbox_skills.cli.request import environment, input_of, invocation, limits, output_directory
from sandbox_skills.cli.server.target import server_options
from sandbox_skills.cli.skills import find_skill, near, trust_of
from sandbox_skills.cli.terminal import NOTES, err, print_json, working
from sandbox_skills.cli.text import harmless_line
from sandbox_skills.errors import CommandError, ScriptNotFoundError
from sandbox_skills.spec import LOCAL_TENANT, exit_code
from sandbox_skills.wiring import opened, trust
from sandbox_skills.workspace.manager import RunRequest

if TYPE_CHECKING:
    from sandbox_skills.catalog import Pin, SkillSpec
    from sandbox_skills.cli.options import GlobalOptions
    from sandbox_skills.client import ServerOptions
    from sandbox_skills.settings import Settings
    from sandbox_skills.workspace.manager import RunResult


SHOWN_SCRIPTS = 12
"""Scripts that a hint names: what fits in two lines."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of `run`, as they were given."""

    argv: tuple[str, ...] = ()
    command: str | None = None
    script: str | None = None
    outputs: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    env_files: tuple[Path, ...] = ()
    cwd: str = ""
    timeout: float | None = None
    out_dir: Path | None = None
    force: bool = False
    server: str | None = None


def run(options: GlobalOptions, skill: str, wanted: RunOptions) -> int:
    """Runs a command of a skill and returns its exit code; everything is checked before anything starts."""
    settings = options.settings()
    outputs = wanted.outputs or ((EVERY_OUTPUT,) if wanted.out_dir is not None else ())
    there = server_options(options, settings, wanted.server)
    if there is not None:
        return _run_there(options, settings, there, skill, replace(wanted, outputs=outputs))
    env, grants = environment(wanted.env, wanted.env_files)
    request = RunRequest(
        invocation=invocation(wanted.argv, wanted.command, wanted.script),
        cwd=wanted.cwd,
        env=env,
        grants=grants,
        inputs=tuple(map(input_of, wanted.inputs)),
        outputs=outputs,
        out_dir=output_directory(wanted.out_dir or Path()) if outputs else None,
        overwrite=wanted.force,
        limits=limits(settings, wanted.timeout),
    )
    spec = find_skill(settings, skill)
    pin = trust(settings).demanded(spec, asked=skill)
    _check_trust(spec, wanted)
    if settings.engine in NOTES and not options.as_json:
        err.print(f"engine {settings.engine}: {NOTES[settings.engine]}")
    asked = replace(request, skill_name=spec.name)
    result = run_async(_run(settings, spec, asked, pin=pin, as_json=options.as_json))
    return _told(options, settings, result, outputs)


def _run_there(
    options: GlobalOptions, settings: Settings, there: ServerOptions, skill: str, wanted: RunOptions
) -> int:
    from sandbox_skills.cli.server.run import run_there, server_run  # noqa: PLC0415  # httpx, which few runs need

    out_dir = output_directory(wanted.out_dir or Path()) if wanted.outputs else None
    asked = server_run(settings, skill, replace(wanted, out_dir=out_dir), engine=options.engine)
    result = run_async(run_there(there, asked, as_json=options.as_json))
    return _told(options, settings, result, wanted.outputs)


def _told(options: GlobalOptions, settings: Settings, result: RunResult, outputs: tuple[str, ...]) -> int:
    unmatched = unmatched_patterns(outputs, result)
    if options.as_json:
        print_json({**result.as_dict(), "unmatched": list(unmatched)})
    else:
        for line in report(result, settings.collect_limits(), unmatched):
            err.print(harmless_line(line))
    return exit_code(result.outcome.ending)


def _check_trust(spec: SkillSpec, wanted: RunOptions) -> None:
    """Refuses to hand on variables of the user's to a skill that no word of his covers; `K=V` is his word."""
    handed_on = [name for name in wanted.env if "=" not in name]
    if not spec.trusted and (handed_on or wanted.env_files):
        state, hint = trust_of(spec), f"sandbox-skills trust {shlex.quote(spec.name)}"
        if state == "found":
            root = near(str(Path(spec.dir).parent))
            hint += f", or give --skills {shlex.quote(root)} to this command"
        why = "was only found" if state == "found" else f"is {state}"
        raise CommandError(f"skill {spec.name!r} {why}, so it gets no variables of yours", hint=hint)


async def _run(
    settings: Settings, spec: SkillSpec, request: RunRequest, *, pin: Pin | None, as_json: bool
) -> RunResult:
    # The user named this folder: where it is a link, what counts is where that leads.
    folder = Path(await anyio.Path(spec.dir).resolve())
    with working("staging the skill") as progress:
        async with opened(settings, pooled=False) as live:
            run = partial(
                live.manager.run,
                folder,
                request,
                tenant=LOCAL_TENANT,
                pin=pin,
                on_phase=progress.say,
            )
            try:
                if as_json:
                    return await run()
                return await shown_live(lambda sink: run(on_output=sink), progress)
            except ScriptNotFoundError as error:
                raise ScriptNotFoundError(error.message, hint=_scripts_hint(spec)) from error


def _scripts_hint(spec: SkillSpec) -> str:
    names = [f"scripts/{name}" for name in list_skill_resources(spec).scripts]
    if not names:
        return "it has no scripts; see `sandbox-skills show`"
    more = ", …" if len(names) > SHOWN_SCRIPTS else ""
    return f"its scripts are {', '.join(names[:SHOWN_SCRIPTS])}{more}"
