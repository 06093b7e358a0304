"""The commands below `skills`, with their options: what a daemon has, as opposed to the folders of this machine."""

from __future__ import annotations

from pathlib import Path
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
    str, typer.Argument(metavar="NAME", help="A skill of the daemon, by its name or id.")
]
VersionOption = Annotated[int | None, typer.Option("--version", metavar="N", min=1, help="Which version.")]

skills = typer.Typer(help="Send skills to a daemon; list, fetch or remove its.")


@skills.command("upload")
def upload_skill(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A skill's folder, with its SKILL.md.")],
    server: ServerOption = None,
    as_json: JsonOption = False,
) -> int:
    """Send a folder as the latest version of its skill."""
    from sandbox_skills.cli.server.skills import upload_skill as work

    return work(options_of(context, as_json), folder, server=server)


@skills.command("list")
def list_skills(context: typer.Context, server: ServerOption = None, as_json: JsonOption = False) -> int:
    """List the skills that runs there may use."""
    from sandbox_skills.cli.server.skills import list_skills as work

    return work(options_of(context, as_json), server=server)


@skills.command("get")
def get_skill(
    context: typer.Context,
    name: NameArgument,
    version: VersionOption = None,
    output: NewFileOption = None,
    force: ReplaceOption = False,
    server: ServerOption = None,
    as_json: JsonOption = False,
) -> int:
    """Fetch a skill as a zip, the latest version by default."""
    from sandbox_skills.cli.server.skills import get_skill as work

    return work(
        options_of(context, as_json), name, version=version, output=output, force=force, server=server
    )


@skills.command("rm")
def remove_skill(
    context: typer.Context,
    name: NameArgument,
    version: VersionOption = None,
    every: EveryVersionOption = False,
    server: ServerOption = None,
    as_json: JsonOption = False,
) -> int:
    """Remove one version of a skill, or all of them."""
    from sandbox_skills.cli.server.skills import remove_skill as work

    return work(options_of(context, as_json), name, version=version, every=every, server=server)
