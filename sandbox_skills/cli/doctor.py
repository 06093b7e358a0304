"""`doctor`: what holds on this host, what does not, and what to do about it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from sandbox_skills.cli.context import run_async
from sandbox_skills.cli.exits import FAILED
from sandbox_skills.cli.terminal import harmless, out, print_json, working

if TYPE_CHECKING:
    from sandbox_skills.cli.context import GlobalOptions

STYLES = {"ok": "green", "warning": "yellow", "lost": "yellow", "failed": "bold red"}


def doctor(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print the checks as JSON.")] = False,
) -> None:
    """Check Docker and this host, and print the fix for each fault; exit 1 where sandboxes cannot run."""
    from sandbox_skills.engines.doctor import examine, worst  # noqa: PLC0415  # docker-py is slow to import
    from sandbox_skills.wiring import doctor_options  # noqa: PLC0415

    options: GlobalOptions = context.obj
    options.as_json = as_json
    with working("looking at this host"):
        checks = run_async(examine(doctor_options(options.settings())))
    if as_json:
        print_json({"state": worst(checks), "checks": [asdict(check) for check in checks]})
    else:
        for check in checks:
            out.print(
                Text.assemble(
                    (f"{check.state:8}", STYLES[check.state]), f"{check.name}: ", harmless(check.detail)
                )
            )
            if check.fix:
                out.print(Text.assemble(" " * 8, ("fix: ", "bold"), harmless(check.fix)))
    if worst(checks) == "failed":
        raise typer.Exit(FAILED)
