"""`doctor`: what holds on this host, what does not, and what to do about it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.text import Text

from sandbox_skills.cli.event_loop import run_async
from sandbox_skills.cli.exits import FAILED
from sandbox_skills.cli.terminal import out, print_json, working
from sandbox_skills.cli.text import harmless_line
from sandbox_skills.engines.doctor import examine, worst
from sandbox_skills.wiring import doctor_options

if TYPE_CHECKING:
    from sandbox_skills.cli.options import GlobalOptions
    from sandbox_skills.engines.doctor import Check

STYLES = {"ok": "green", "warning": "yellow", "lost": "yellow", "failed": "bold red"}

STATE_WIDTH = max(map(len, STYLES)) + 1


def doctor(options: GlobalOptions) -> int:
    """Prints every check with the fix for its fault; returns 1 where sandboxes cannot run."""
    with working("looking at this host"):
        checks = run_async(examine(doctor_options(options.settings())))
    if options.as_json:
        print_json({"state": worst(checks), "checks": [asdict(check) for check in checks]})
    else:
        for check in checks:
            _show(check)
    return FAILED if worst(checks) == "failed" else 0


def _show(check: Check) -> None:
    state = (f"{check.state:{STATE_WIDTH}}", STYLES[check.state])
    out.print(Text.assemble(state, f"{check.name}: ", harmless_line(check.detail)))
    if check.fix:
        out.print(Text.assemble(" " * STATE_WIDTH, ("fix: ", "bold"), harmless_line(check.fix)))
