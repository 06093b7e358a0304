"""`image`: the runner image, built and looked at through the Docker API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sandbox_skills.cli.daemon_client import docker_client
from sandbox_skills.cli.exits import FAILED
from sandbox_skills.cli.terminal import err, harmless, out, print_json, working

if TYPE_CHECKING:
    from collections.abc import Callable

    from sandbox_skills.cli.context import GlobalOptions
    from sandbox_skills.settings import Settings

app = typer.Typer(help="Build the runner image, or see whether it is there.", no_args_is_help=True)

TargetOption = Annotated[
    str | None, typer.Option("--target", help="slim, or full with office and data libraries.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@app.command()
def build(
    context: typer.Context,
    target: TargetOption = None,
    base: Annotated[str | None, typer.Option("--base", help="auto, registry or bootstrap.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Build again, on a new base.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Build the runner image, unless this version's is there."""
    from sandbox_skills.engines import image  # noqa: PLC0415  # docker-py is slow to import

    settings = _settings(context, as_json, target=target, base=base)
    with working("building the runner image") as say:
        built = image.build(
            docker_client(settings),
            target=settings.image.target,
            base=settings.image.base,
            cache_dir=settings.data_dir / "cache",
            progress=_progress(say),
            fresh=fresh,
        )
    if as_json:
        print_json({"id": built.id, "tag": built.tag, "seconds": built.seconds, "cached": built.cached})
    else:
        out.print(f"{built.tag} {'is there' if built.cached else f'built in {built.seconds:.0f} s'}")


@app.command()
def status(context: typer.Context, target: TargetOption = None, as_json: JsonOption = False) -> None:
    """Say whether the runner image is there; exit 1 where it is not."""
    from sandbox_skills.engines import image  # noqa: PLC0415  # docker-py is slow to import

    settings = _settings(context, as_json, target=target)
    found = image.status(docker_client(settings), target=settings.image.target)
    if as_json:
        print_json({"state": found.state, "tag": found.tag, "id": found.id, "bytes": found.size})
    else:
        size = f", {found.size / 1e6:.0f} MB" if found.size else ""
        out.print(f"{found.tag}: {found.state}{size}")
    if found.state != "present":
        raise typer.Exit(FAILED)


def _settings(context: typer.Context, as_json: bool, **chosen: str | None) -> Settings:
    options: GlobalOptions = context.obj
    options.as_json = as_json
    return options.settings({f"image.{name}": value for name, value in chosen.items()})


def _progress(say: Callable[[str], None]) -> Callable[[str], None]:
    """On a terminal the last line beside the spinner, elsewhere every line: a log should have them all."""
    if err.is_terminal:
        return say
    return lambda line: err.print(harmless(line), markup=False)
