"""Every command with its options. What a command does is imported when it runs, so that `--help` waits for nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sandbox_skills.cli.admin_commands import audit, keys, tenants
from sandbox_skills.cli.artifact_commands import artifacts
from sandbox_skills.cli.ci_commands import ci_commands
from sandbox_skills.cli.options import (
    AcceptOption,
    ConfigOption,
    EngineOption,
    JsonOption,
    ServerOption,
    SkillsOption,
    options_of,
)
from sandbox_skills.cli.skill_commands import skills
from sandbox_skills.cli.tool_commands import tool_commands

if TYPE_CHECKING:
    from sandbox_skills.cli.options import GlobalOptions

UserOption = Annotated[
    bool, typer.Option("--user", help="Look below your home directory, too: .claude/skills and the like.")
]
NameArgument = Annotated[str, typer.Argument(metavar="SKILL", help="A skill, by its name or id.")]
AddedArgument = Annotated[str, typer.Argument(metavar="SKILL", help="A skill that was added, by its name.")]
TargetOption = Annotated[
    str | None,
    typer.Option("--target", metavar="NAME", help="slim, or full: with office and data libraries."),
]

app = typer.Typer(
    name="sandbox-skills",
    help="Run Agent Skills written by strangers in a hardened, network-disabled container.",
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
image = typer.Typer(help="Build the runner image, or see whether it is there.")


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"sandbox-skills {version('sandbox-skills')}")
        raise typer.Exit


@app.callback()
def global_options(
    context: typer.Context,
    skills: SkillsOption = None,
    config: ConfigOption = None,
    engine: EngineOption = None,
    accept_no_isolation: AcceptOption = False,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Show the version.")
    ] = False,
) -> None:
    """Holds the options that stand before a command's name."""
    del version
    options: GlobalOptions = context.obj
    options.take(skills, config, engine, accept_no_isolation)


@app.command("list")
def list_skills(
    context: typer.Context,
    every: Annotated[
        bool, typer.Option("--all", help="Also those that another skill of the same name hides.")
    ] = False,
    user: UserOption = False,
    as_json: JsonOption = False,
) -> int:
    """List the skills that were found."""
    from sandbox_skills.cli.skills import list_skills as work

    return work(options_of(context, as_json), every=every, user=user)


@app.command()
def show(
    context: typer.Context, skill: NameArgument, user: UserOption = False, as_json: JsonOption = False
) -> int:
    """Show one skill: what it says of itself, its tools and files."""
    from sandbox_skills.cli.skills import show as work

    return work(options_of(context, as_json), skill, user=user)


@app.command()
def run(
    context: typer.Context,
    skill: NameArgument,
    argv: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- ARGV...", help="The program and its arguments, as they are, after a --."),
    ] = None,
    command: Annotated[
        str | None, typer.Option("--command", metavar="TEXT", help="A command line for bash -c instead.")
    ] = None,
    script: Annotated[
        str | None,
        typer.Option(
            "--script", metavar="PATH", help="A script of the skill instead; its arguments stand after a --."
        ),
    ] = None,
    output: Annotated[
        list[str] | None,
        typer.Option(
            "--output",
            metavar="GLOB",
            help="Files of the workspace to collect, such as 'out/**', which is what --out-dir alone collects; "
            "can be repeated.",
        ),
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="FROM[:TO]",
            help="A file or folder to put in; TO is relative to the workspace, inputs/x is work/inputs/x, a trailing "
            "slash keeps the name; work/inputs/ by default; can be repeated.",
        ),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env",
            metavar="NAME|K=V",
            help="A variable. A NAME alone is taken from yours, as a secret. With K=V the value is no secret: it is "
            "on this host's list of processes while the command runs. Can be repeated.",
        ),
    ] = None,
    env_file: Annotated[
        list[Path] | None,
        typer.Option("--env-file", metavar="FILE", help="Variables, one K=V a line, as secrets; --env wins."),
    ] = None,
    cwd: Annotated[
        str, typer.Option("--cwd", metavar="DIR", help="Where to run; the skill's folder by default.")
    ] = "",
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="SECONDS", help="When to stop the run.")
    ] = None,
    out_dir: Annotated[
        Path | None,
        typer.Option(
            "--out-dir",
            metavar="DIR",
            help="Where collected files go, the current directory by default; made when there is one.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite files that are there, which are left otherwise.")
    ] = False,
    server: ServerOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as JSON, output included.")
    ] = False,
) -> int:
    """Run a command of a skill in a sandbox, and collect its files."""
    from sandbox_skills.cli.run import RunOptions
    from sandbox_skills.cli.run import run as work

    wanted = RunOptions(
        argv=tuple(argv or ()),
        command=command,
        script=script,
        outputs=tuple(output or ()),
        inputs=tuple(inputs or ()),
        env=tuple(env or ()),
        env_files=tuple(env_file or ()),
        cwd=cwd,
        timeout=timeout,
        out_dir=out_dir,
        force=force,
        server=server,
    )
    return work(options_of(context, as_json), skill, wanted)


@image.command()
def build(
    context: typer.Context,
    target: TargetOption = None,
    base: Annotated[
        str | None,
        typer.Option("--base", metavar="NAME", help="Where it starts from: auto, registry or bootstrap."),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Build again, on a new base.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Build the runner image, unless this version's is there."""
    from sandbox_skills.cli.image import build as work

    return work(options_of(context, as_json), target=target, base=base, fresh=fresh)


@image.command()
def status(context: typer.Context, target: TargetOption = None, as_json: JsonOption = False) -> int:
    """Say whether the image of sandboxes is there; exit 1 if not."""
    from sandbox_skills.cli.image import status as work

    return work(options_of(context, as_json), target=target)


app.add_typer(image, name="image")
app.add_typer(artifacts, name="artifacts")
app.add_typer(skills, name="skills")
app.add_typer(tenants, name="tenants")
app.add_typer(keys, name="keys")
app.add_typer(audit, name="audit")
app.add_typer(tool_commands)
app.add_typer(ci_commands)


@app.command()
def doctor(
    context: typer.Context,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail on anything less than SECURITY.md says of the engine.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Check Docker and this host, with the fix for each fault."""
    from sandbox_skills.cli.doctor import doctor as work

    return work(options_of(context, as_json), strict=strict)


@app.command()
def gc(
    context: typer.Context,
    images: Annotated[bool, typer.Option("--images", help="Remove images of other versions, too.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Remove sandboxes, copies and artifacts whose time is over."""
    from sandbox_skills.cli.gc import gc as work

    return work(options_of(context, as_json), images=images)


@app.command()
def demo(context: typer.Context, as_json: JsonOption = False) -> int:
    """Run a sample skill, and try two things that must be blocked."""
    from sandbox_skills.cli.demo import demo as work

    return work(options_of(context, as_json))


@app.command()
def validate(
    context: typer.Context,
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="A skill, a folder of skills, or a SKILL.md.")
    ],
    strict: Annotated[
        bool, typer.Option("--strict", help="Whatever breaks the specification is an error.")
    ] = False,
    sarif: Annotated[
        Path | None, typer.Option("--sarif", metavar="FILE", help="Write the findings as SARIF, too.")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Say what is wrong with skills; exit 1 for errors."""
    from sandbox_skills.cli.validate import validate as work

    return work(options_of(context, as_json), paths, strict=strict, sarif=sarif)


@app.command()
def new(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the skill and of its folder.")],
    language: Annotated[
        str, typer.Option("--lang", metavar="LANG", help="Of its script: python, node or bash.")
    ] = "python",
    tool: Annotated[bool, typer.Option("--tool", help="Declare the script as a tool of a model.")] = False,
    parent: Annotated[
        Path,
        typer.Option(
            "--dir", metavar="DIR", help="Where the folder is made; here by default.", show_default=False
        ),
    ] = Path(),
    as_json: JsonOption = False,
) -> int:
    """Start a new skill, with a script and a test case."""
    from sandbox_skills.cli.scaffold import new as work

    return work(options_of(context, as_json), name, language=language, tool=tool, parent=parent)


@app.command()
def add(
    context: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="A folder, a zip or tar, an http(s) address of one, or a Git repository."
        ),
    ],
    path: Annotated[
        str,
        typer.Option("--path", metavar="PATH", help="Where in it the skill lies; ADDRESS#PATH says it, too."),
    ] = "",
    as_json: JsonOption = False,
) -> int:
    """Fetch a skill, check it, and pin what it holds."""
    from sandbox_skills.cli.sources import add as work

    return work(options_of(context, as_json), source, path=path)


@app.command()
def update(
    context: typer.Context,
    skill: AddedArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Accept what is different without being asked.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Fetch an added skill again; say which files differ, and ask."""
    from sandbox_skills.cli.sources import update as work

    return work(options_of(context, as_json), skill, yes=yes)


@app.command()
def remove(context: typer.Context, skill: AddedArgument, as_json: JsonOption = False) -> int:
    """Remove an added skill."""
    from sandbox_skills.cli.sources import remove as work

    return work(options_of(context, as_json), skill)


@app.command()
def trust(
    context: typer.Context,
    skill: NameArgument,
    revoke: Annotated[bool, typer.Option("--revoke", help="Drop what was pinned instead.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Accept what a skill holds now; other content is refused."""
    from sandbox_skills.cli.sources import accept as work

    return work(options_of(context, as_json), skill, revoke=revoke)
