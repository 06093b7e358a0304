"""`validate`: what is wrong with skills, as a table, as JSON and as SARIF."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_skills.catalog.rules import Severity
from sandbox_skills.catalog.sarif import sarif_log
from sandbox_skills.cli.exits import FAILED
from sandbox_skills.cli.skills import near
from sandbox_skills.cli.terminal import err, out, print_json
from sandbox_skills.cli.text import aligned, counted, harmless_line
from sandbox_skills.errors import InputError
from sandbox_skills.install.validate import Report
from sandbox_skills.install.validate import validate as find
from sandbox_skills.settings import current_directory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sandbox_skills.cli.options import GlobalOptions

HEAD = ("FILE", "LINE", "SEVERITY", "CODE", "MESSAGE", "FIX")


def validate(options: GlobalOptions, paths: Sequence[Path], *, strict: bool, sarif: Path | None) -> int:
    """Prints what is wrong with the skills at `paths`; returns 1 where anything is an error."""
    here = current_directory()
    report = find(
        [here / path for path in paths],
        mode="strict" if strict else "lenient",
        max_directories=options.settings().skills.max_directories,
    )
    if sarif is not None:
        write_sarif(report, sarif)
    if options.as_json:
        print_json(report.as_dict())
    elif report.findings:
        width = out.width if out.is_terminal else None
        for line in aligned([HEAD, *_rows(report)], width=width):
            out.print(line)
    err.print(
        ", ".join(counted(number, label.removesuffix("s")) for label, number in report.counts().items())
    )
    return FAILED if report.count(Severity.ERROR) else 0


def write_sarif(report: Report, file: Path) -> None:
    """Writes the findings for code-review tools; raises InputError."""
    log = sarif_log(
        ((finding.path, finding.diagnostic) for finding in report.findings),
        version=version("sandbox-skills"),
        base=str(Path.cwd()),
    )
    try:
        file.write_text(json.dumps(log, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{file}: cannot be written: {error.strerror}") from error


def _rows(report: Report) -> Iterator[tuple[str, ...]]:
    for finding in report.findings:
        item = finding.diagnostic
        row = (near(finding.path), str(item.line or ""), item.severity.value, item.code, str(item), item.fix)
        yield tuple(map(harmless_line, row))
