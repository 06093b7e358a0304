"""`run`: one command of one skill, in a sandbox of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sandbox_skills.cli.context import GlobalOptions, run_async
from sandbox_skills.cli.exits import ending_code
from sandbox_skills.cli.skills import find_skill
from sandbox_skills.cli.terminal import LiveOutput, err, harmless, print_json, working
from sandbox_skills.errors import CommandError, InputError
from sandbox_skills.settings import caller_environment, read_env_file
from sandbox_skills.spec import Exited, Signalled, Stopped
from sandbox_skills.wiring import opened
from sandbox_skills.workspace.inputs import Input
from sandbox_skills.workspace.manager import Argv, RunRequest, Script, Shell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandbox_skills.settings import Settings
    from sandbox_skills.spec import Limits
    from sandbox_skills.workspace.manager import Invocation, RunResult

LOCAL_TENANT = "local"
"""Whoever sits at the command line owns what it makes."""


def run(
    context: typer.Context,
    skill: Annotated[str, typer.Argument(metavar="SKILL", help="A skill by its name or id.")],
    argv: Annotated[
        list[str] | None, typer.Argument(metavar="[-- ARGV...]", help="The program to run, as it is.")
    ] = None,
    command: Annotated[
        str | None, typer.Option("--command", metavar="TEXT", help="A command line for bash -c instead.")
    ] = None,
    script: Annotated[
        str | None,
        typer.Option(
            "--script", metavar="PATH", help="A script of the skill instead; ARGV are its arguments."
        ),
    ] = None,
    output: Annotated[
        list[str] | None, typer.Option("--output", metavar="GLOB", help="Files to collect, such as 'out/**'.")
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="FROM[:TO]", help="A file or folder to put into work/inputs."),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="NAME|K=V", help="A variable; a NAME alone is taken from yours."),
    ] = None,
    env_file: Annotated[
        list[Path] | None, typer.Option("--env-file", metavar="FILE", help="Variables, one KEY=VALUE a line.")
    ] = None,
    cwd: Annotated[
        str, typer.Option("--cwd", metavar="DIR", help="Where to run; the skill's folder by default.")
    ] = "",
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="SECONDS", help="When to stop the run.")
    ] = None,
    out_dir: Annotated[
        Path, typer.Option("--out-dir", metavar="DIR", help="Where collected files go.")
    ] = Path(),
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as JSON, output included.")
    ] = False,
) -> None:
    """Run a command of a skill in a sandbox, stream its output, collect its files."""
    options: GlobalOptions = context.obj
    options.as_json = as_json
    settings = options.settings()
    folder, name = find_skill(settings, skill)
    request = RunRequest(
        invocation=_invocation(argv or [], command, script),
        skill_name=name,
        cwd=cwd,
        env=_environment(env or [], env_file or []),
        inputs=tuple(_input(text) for text in inputs or []),
        outputs=tuple(output or ()),
        out_dir=out_dir.absolute(),
        limits=_limits(settings, timeout),
    )
    result = run_async(_run(settings, folder, request, as_json=as_json))
    if as_json:
        print_json(result.as_dict())
    else:
        _report(result)
    raise typer.Exit(ending_code(result.outcome.ending))


async def _run(settings: Settings, folder: Path, request: RunRequest, *, as_json: bool) -> RunResult:
    async with opened(settings) as live:
        with working("starting a sandbox") as say:
            sink = None if as_json else LiveOutput(before_first=lambda: say("running"))
            return await live.manager.run(folder, request, tenant=LOCAL_TENANT, on_output=sink)


def _invocation(argv: Sequence[str], command: str | None, script: str | None) -> Invocation:
    if command is not None and script is not None:
        raise CommandError("--command and --script exclude each other")
    if command is not None:
        if argv:
            raise CommandError("give either --command or a command after --, not both")
        return Shell(command)
    if script is not None:
        return Script(script, tuple(argv))
    if not argv:
        raise CommandError(
            "no command was given", hint="end with `-- python3 scripts/x.py`, or use --command"
        )
    return Argv(tuple(argv))


def _environment(pairs: Sequence[str], files: Sequence[Path]) -> dict[str, str]:
    values: dict[str, str] = {}
    for path in files:
        values |= read_env_file(path)
    for pair in pairs:
        name, given, value = pair.partition("=")
        values |= {name: value} if given else caller_environment([name])
    return values


def _input(text: str) -> Input:
    """Reads FROM[:TO]. A path that exists as it stands is all FROM, colons included."""
    if Path(text).exists() or ":" not in text:
        return Input(Path(text))
    source, _, target = text.rpartition(":")
    if not source or not target:
        raise InputError(f"--input {text}: FROM and TO may not be empty")
    return Input(Path(source), target)


def _limits(settings: Settings, timeout: float | None) -> Limits:
    limits = settings.run_limits()
    if timeout is None:
        return limits
    ceiling = settings.run.wall_ceiling_seconds
    if not 0 < timeout <= ceiling:
        raise CommandError(
            f"--timeout {timeout:g} is not between 0 and {ceiling:g} seconds",
            hint="raise run.wall_ceiling_seconds in the settings",
        )
    return replace(limits, wall_seconds=timeout)


def _report(result: RunResult) -> None:
    for file in result.files:
        cut = ", cut" if file.truncated else ""
        err.print(f"saved {file.saved} ({file.size} bytes{cut})", markup=False)
    for path, reason in result.skipped.items():
        err.print(f"left {harmless(path)}: {harmless(reason)}", markup=False)
    if result.limits_hit:
        err.print(f"limits hit: {', '.join(sorted(result.limits_hit))}", markup=False)
    match result.outcome.ending:
        case Stopped(reason):
            err.print(f"stopped: {reason.replace('_', ' ')}", markup=False)
        case Signalled(signal):
            err.print(f"ended by signal {signal}", markup=False)
        case Exited():
            pass
