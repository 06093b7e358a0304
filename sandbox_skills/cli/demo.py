"""`demo`: one thing that works and two that are blocked, in one sandbox, within seconds."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox_skills.bundled import bundled
from sandbox_skills.cli.event_loop import run_async
from sandbox_skills.cli.exits import FAILED
from sandbox_skills.cli.terminal import out, print_json, working
from sandbox_skills.cli.text import harmless_line
from sandbox_skills.errors import EngineError
from sandbox_skills.spec import LOCAL_TENANT, ending_dict
from sandbox_skills.wiring import opened
from sandbox_skills.workspace.manager import Argv, RunRequest, Shell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandbox_skills.cli.options import GlobalOptions
    from sandbox_skills.settings import Settings
    from sandbox_skills.workspace.manager import RunResult

    Attempt = dict[str, Any]

COMMAND = "python3 scripts/fib.py 10 > out/fib.txt"
ATTEMPTS = ("python3", "scripts/escape.py", "--only", "tcp_v4,write_skill")

INDENT = " " * 9


def demo(options: GlobalOptions) -> int:
    """Runs a sample skill, then tries what must be blocked; returns 1 where either went wrong."""
    with tempfile.TemporaryDirectory(prefix="sandbox-skills-demo-") as folder:
        worked, attempts = run_async(_demo(options.settings(), Path(folder)))
        saved = {str(file.path): Path(str(file.saved)).read_text(encoding="utf-8") for file in worked.files}
    if options.as_json:
        print_json({"run": worked.as_dict(), "files": saved, "attempts": attempts})
    else:
        for line in (*_allowed(worked, saved), *_blocked(attempts)):
            out.print(harmless_line(line))
    return 0 if worked.outcome.ok and all(row["blocked"] for row in attempts) else FAILED


async def _demo(settings: Settings, folder: Path) -> tuple[RunResult, list[Attempt]]:
    with working("starting a sandbox"):
        async with (
            opened(settings, pooled=False) as live,
            live.manager.session(tenant=LOCAL_TENANT) as session,
        ):
            maths = await session.stage(bundled("skills/python-math"))
            worked = await session.run(maths, RunRequest(Shell(COMMAND), outputs=("out/*",), out_dir=folder))
            artist = await session.stage(bundled("skills/escape-artist"))
            tried = await session.run(artist, RunRequest(Argv(ATTEMPTS)))
    try:
        attempts: list[Attempt] = json.loads(tried.outcome.stdout)["attempts"]
    except (ValueError, KeyError) as error:
        reason = tried.outcome.stderr.decode(errors="backslashreplace")
        raise EngineError(f"the attempts could not be made: {reason}") from error
    return worked, attempts


def _allowed(worked: RunResult, saved: dict[str, str]) -> Iterator[str]:
    ending = ending_dict(worked.outcome.ending)
    printed = worked.outcome.stdout.decode(errors="backslashreplace").strip()
    yield f"allowed  {COMMAND}"
    yield (
        f"{INDENT}exit code {ending.get('code', ending)} after {worked.outcome.wall_seconds:.2f} s,"
        f" stdout: {printed or '(empty, it went to the file)'}"
    )
    for name, content in saved.items():
        yield f"{INDENT}{name}: {' '.join(content.split())}"


def _blocked(attempts: list[Attempt]) -> Iterator[str]:
    for row in attempts:
        yield f"{'blocked' if row['blocked'] else 'ESCAPED'}  {row['what']}: {row['how']}"
        if row["blocked"]:
            yield f"{INDENT}enforced by: {row['enforced_by']}"
