"""The commands below `artifacts`, with their options."""

from __future__ import annotations

from typing import Annotated

import typer

from sandbox_skills.cli.options import (
    EveryVersionOption,
    JsonOption,
    NewFileOption,
    ReplaceOption,
    ServerOption,
    options_of,
)

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="An artifact, by its name or as artifact://NAME[@N].")
]
VersionOption = Annotated[int | None, typer.Option("--version", metavar="N", min=0, help="Which version.")]

artifacts = typer.Typer(help="List, fetch or remove the outputs that were kept.")


@artifacts.command("list")
def list_artifacts(
    context: typer.Context,
    prefix: Annotated[str, typer.Argument(metavar="PREFIX", help="How the names start.")] = "",
    every: Annotated[bool, typer.Option("--all", help="Every version, not only the latest.")] = False,
    server: ServerOption = None,
    as_json: JsonOption = False,
) -> int:
    """List the artifacts that are kept."""
    from sandbox_skills.cli.artifacts import list_artifacts as work

    return work(options_of(context, as_json), prefix, every=every, server=server)


@artifacts.command("get")
def get_artifact(
    context: typer.Context,
    name: NameArgument,
    version: VersionOption = None,
    output: NewFileOption = None,
    force: ReplaceOption = False,
    server: ServerOption = None,
    as_json: JsonOption = False,
) -> int:
    """Fetch one artifact, the latest version by default."""
    from sandbox_skills.cli.artifacts import get_artifact as work

    return work(
        options_of(context, as_json), name, version=version, output=output, force=force, server=server
    )


@artifacts.command("rm")
def remove_artifact(
    context: typer.Context,
    name: NameArgument,
    version: VersionOption = None,
    every: EveryVersionOption = False,
    server: ServerOption = None,
    as_json: JsonOption = False,
) -> int:
    """Remove one version of an artifact, or all of them."""
    from sandbox_skills.cli.artifacts import remove_artifact as work

    return work(options_of(context, as_json), name, version=version, every=every, server=server)
