"""`doctor`: what holds on this host, what does not, and what to do about it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.text import Text

from sandbox_skills.cli.event_loop import run_async
from sandbox_skills.cli.exits import FAILED
from sandbox_skills.cli.terminal import out, print_json, working
from sandbox_skills.cli.text import harmless_line
from sandbox_skills.engines.doctor import documented, examine, shortfalls, worst
from sandbox_skills.wiring import doctor_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandbox_skills.cli.options import GlobalOptions
    from sandbox_skills.engines.doctor import Check

STYLES = {"ok": "green", "warning": "yellow", "lost": "yellow", "failed": "bold red"}

STATE_WIDTH = max(map(len, STYLES)) + 1


def doctor(options: GlobalOptions, *, strict: bool) -> int:
    """Prints every check with the fix for its fault; returns 1 where sandboxes cannot run.

    With `strict` also where anything is less than what is documented of the engine, which is told apart.
    """
    asked = doctor_options(options.settings())
    with working("looking at this host"):
        checks = run_async(examine(asked))
    short = shortfalls(checks, asked.needs, documented(asked)) if strict else []
    if options.as_json:
        told = {"state": worst(checks), "checks": [asdict(check) for check in checks]}
        print_json(told | ({"less_than_documented": [asdict(check) for check in short]} if strict else {}))
    else:
        _show_all(checks, short)
    return FAILED if short or worst(checks) == "failed" else 0


def _show_all(checks: Sequence[Check], short: Sequence[Check]) -> None:
    for check in checks:
        _show(check)
    if short:
        out.print("\nless than SECURITY.md says of this engine:")
    for check in short:
        _show(check)


def _show(check: Check) -> None:
    state = (f"{check.state:{STATE_WIDTH}}", STYLES[check.state])
    out.print(Text.assemble(state, f"{check.name}: ", harmless_line(check.detail)))
    if check.fix:
        out.print(Text.assemble(" " * STATE_WIDTH, ("fix: ", "bold"), harmless_line(check.fix)))
