"""The program `sandbox-skills`: its commands, and what every one of them does with an error."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from sandbox_skills.cli import demo, doctor, gc, image, run, skills
from sandbox_skills.cli.context import GlobalOptions, StoppedBySignalError
from sandbox_skills.cli.exits import error_code
from sandbox_skills.cli.terminal import complain, err
from sandbox_skills.errors import SandboxSkillsError

app = typer.Typer(
    name="sandbox-skills",
    help="Run Agent Skills written by strangers in a hardened, network-disabled container.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("list")(skills.list_skills)
app.command("show")(skills.show)
app.command("run")(run.run)
app.add_typer(image.app, name="image")
app.command("doctor")(doctor.doctor)
app.command("gc")(gc.gc)
app.command("demo")(demo.demo)


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"sandbox-skills {version('sandbox-skills')}\n")
        raise typer.Exit


@app.callback()
def main_options(
    context: typer.Context,
    skills_roots: Annotated[
        list[Path] | None,
        typer.Option("--skills", metavar="DIR", help="A folder of skills; may be given more than once."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="The settings file to read.")
    ] = None,
    engine: Annotated[str | None, typer.Option("--engine", help="The engine that makes sandboxes.")] = None,
    show_version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Show the version.")
    ] = False,
) -> None:
    """Holds the options that stand before a command's name."""
    del show_version
    options: GlobalOptions = context.obj
    options.skills, options.config, options.engine = tuple(skills_roots or ()), config, engine


def main() -> None:
    """Runs the program and exits with the code that `exits` gives."""
    sys.exit(_main(sys.argv[1:]))


def _main(arguments: list[str]) -> int:
    options = GlobalOptions()
    try:
        typer.main.get_command(app).main(arguments, prog_name="sandbox-skills", obj=options)
    except SandboxSkillsError as error:
        complain(error, as_json=options.as_json)
        return error_code(error)
    except StoppedBySignalError as error:
        err.print("stopped; nothing is left running")
        return error.code
    except SystemExit as stop:
        # The library ends the program itself: 0, a command's own code, 2 for a usage error.
        return stop.code if isinstance(stop.code, int) else 0
    return 0
