"""The commands for authors and reviewers of skills, with their options."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sandbox_skills.cli.options import GlobalOptions

ci_commands = typer.Typer()


@ci_commands.command("inspect")
def inspect_skill(
    context: typer.Context,
    skill: Annotated[str, typer.Argument(metavar="SKILL", help="A skill, by its folder, name or id.")],
    argv: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- ARGV...",
            help="The program and its arguments; by default every script, asked for its --help.",
        ),
    ] = None,
    command: Annotated[
        str | None, typer.Option("--command", metavar="TEXT", help="A command line for bash -c instead.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="SECONDS", help="When to stop each run.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> int:
    """Run a skill and say what it tries: network, programs, files."""
    from sandbox_skills.cli.inspecting import inspect

    options: GlobalOptions = context.obj
    options.as_json = as_json
    return inspect(options, skill, tuple(argv or ()), command, timeout)


@ci_commands.command("test")
def run_tests(
    context: typer.Context,
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[PATH...]", help="A skill or a folder of skills; by default the folders of your skills."
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option("-j", "--jobs", metavar="N", min=1, max=64, help="Cases at once: your processors."),
    ] = None,
    words: Annotated[
        list[str] | None,
        typer.Option("-k", metavar="TEXT", help="Only what has TEXT in skill::name; can be repeated."),
    ] = None,
    fail_fast: Annotated[
        bool, typer.Option("--fail-fast", help="Begin no case after one has failed.")
    ] = False,
    changed_since: Annotated[
        str | None,
        typer.Option(
            "--changed-since", metavar="REV", help="Only skills with files that differ from REV in Git."
        ),
    ] = None,
    shard: Annotated[
        str | None, typer.Option("--shard", metavar="K/N", help="Only the Kth of N parts of all cases.")
    ] = None,
    repeat: Annotated[
        int,
        typer.Option(
            "--repeat", metavar="N", min=1, max=1000, help="Run each case N times, to find flaky ones."
        ),
    ] = 1,
    update: Annotated[bool, typer.Option("--update", help="Keep snapshots as they are now.")] = False,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Write the results as JUnit XML, too.")
    ] = None,
    sarif: Annotated[
        Path | None, typer.Option("--sarif", metavar="FILE", help="Write what validate finds as SARIF, too.")
    ] = None,
    summary: Annotated[
        Path | None,
        typer.Option(
            "--summary", metavar="FILE", help="Add the results as Markdown, as to a GitHub job's summary."
        ),
    ] = None,
    artifacts: Annotated[
        Path | None,
        typer.Option("--artifacts", metavar="DIR", help="Keep output and files of cases that failed."),
    ] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of tests/*.yaml, and run nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print results as JSON, one a line.")] = False,
) -> int:
    """Run the test cases of skills, each in a sandbox of its own."""
    from sandbox_skills.cli.testing import RunTestsOptions, print_schema
    from sandbox_skills.cli.testing import run_tests as work

    if schema:
        return print_schema()
    wanted = RunTestsOptions(
        paths=tuple(paths or ()),
        jobs=jobs,
        words=tuple(words or ()),
        fail_fast=fail_fast,
        changed_since=changed_since,
        shard=shard,
        repeat=repeat,
        update=update,
        junit=junit,
        sarif=sarif,
        summary=summary,
        artifacts=artifacts,
    )
    options: GlobalOptions = context.obj
    options.as_json = as_json
    return work(options, wanted)
