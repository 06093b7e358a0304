"""`demo`: one thing that works and two that are blocked, in one sandbox, within seconds."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sandbox_skills.bundled import bundled
from sandbox_skills.cli.context import run_async
from sandbox_skills.cli.exits import FAILED
from sandbox_skills.cli.run import LOCAL_TENANT
from sandbox_skills.cli.terminal import harmless, out, print_json, working
from sandbox_skills.errors import EngineError
from sandbox_skills.wiring import opened
from sandbox_skills.workspace.manager import Argv, RunRequest, Shell

if TYPE_CHECKING:
    from sandbox_skills.cli.context import GlobalOptions
    from sandbox_skills.settings import Settings
    from sandbox_skills.workspace.manager import RunResult

COMMAND = "python3 scripts/fib.py 10 > out/fib.txt"
ATTEMPTS = "tcp_v4,write_skill"


def demo(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Run a sample skill in a sandbox, collect its output, and try two things that must be blocked."""
    options: GlobalOptions = context.obj
    options.as_json = as_json
    with tempfile.TemporaryDirectory(prefix="sandbox-skills-demo-") as folder:
        worked, attempts = run_async(_demo(options.settings(), Path(folder)))
        saved = {str(file.path): Path(str(file.saved)).read_text(encoding="utf-8") for file in worked.files}
    escaped = [row for row in attempts if not row["blocked"]]
    if as_json:
        print_json({"run": worked.as_dict(), "files": saved, "attempts": attempts})
    else:
        _show(worked, saved, attempts)
    if escaped or not worked.outcome.ok:
        raise typer.Exit(FAILED)


async def _demo(settings: Settings, folder: Path) -> tuple[RunResult, list[dict[str, Any]]]:
    async with opened(settings) as live:
        with working("starting a sandbox"):
            async with live.manager.session(tenant=LOCAL_TENANT) as session:
                maths = await session.stage(bundled("skills/python-math"))
                request = RunRequest(Shell(COMMAND), outputs=("out/*",), out_dir=folder)
                worked = await session.run(maths, request)
                artist = await session.stage(bundled("skills/escape-artist"))
                argv = ("python3", "scripts/escape.py", "--only", ATTEMPTS)
                tried = await session.run(artist, RunRequest(Argv(argv)))
    try:
        attempts: list[dict[str, Any]] = json.loads(tried.outcome.stdout)["attempts"]
    except (ValueError, KeyError) as error:
        raise EngineError(f"the attempts could not be made: {tried.outcome.stderr.decode()}") from error
    return worked, attempts


def _show(worked: RunResult, saved: dict[str, str], attempts: list[dict[str, Any]]) -> None:
    seconds = worked.outcome.wall_seconds
    out.print(f"allowed  {COMMAND}", markup=False)
    out.print(
        f"         exit code {_code(worked)} after {seconds:.2f} s, stdout: {_text(worked)}", markup=False
    )
    for name, content in saved.items():
        out.print(f"         {name}: {' '.join(content.split())}", markup=False)
    for row in attempts:
        verdict = "blocked " if row["blocked"] else "ESCAPED "
        out.print(f"{verdict} {harmless(row['what'])}: {harmless(row['how'])}", markup=False)
        if row["blocked"]:
            out.print(f"         enforced by: {harmless(row['enforced_by'])}", markup=False)


def _code(worked: RunResult) -> object:
    ending = worked.outcome.as_dict()["ending"]
    return ending.get("code", ending) if isinstance(ending, dict) else ending


def _text(worked: RunResult) -> str:
    return (
        harmless(worked.outcome.stdout.decode(errors="backslashreplace").strip())
        or "(empty, it went to the file)"
    )
