"""Results of `test` as people watch them come, and as programs read them."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, ExitStack
from itertools import groupby
from typing import TYPE_CHECKING, Protocol, Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from sandbox_skills.ci.messages import failure_lines, headline, summary
from sandbox_skills.ci.results import STATUSES
from sandbox_skills.cli.terminal import err, out, print_json_line
from sandbox_skills.cli.text import aligned, harmless_line
from sandbox_skills.settings import is_ci

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from rich.progress import TaskID

    from sandbox_skills.ci.results import Status, TrialReport, TrialResult

_STYLES: dict[Status, str] = {
    "passed": "green",
    "failed": "bold red",
    "flaky": "bold yellow",
    "error": "bold magenta",
    "skipped": "dim",
}

MAX_HEADLINE = 160
"""Characters of a failure beside its case; all of it comes at the end."""


class View(AbstractContextManager["View"], Protocol):
    """Shows results while it is entered, and what they come to."""

    def show(self, result: TrialResult) -> None:
        """Shows one result, in the order of the report."""
        ...

    def end(self, report: TrialReport) -> None:
        """Shows what all came to."""
        ...


def view_of(total: int, *, as_json: bool) -> View:
    """Returns JSON lines where a program reads, a bar and failures on a terminal, else one line for each result.

    A log of a CI system is no terminal, though it may have colours.
    """
    if as_json:
        return _JsonView()
    watched = err.is_terminal and out.is_terminal and sys.stderr.isatty() and not is_ci()
    return _BarView(total) if watched else _LineView()


class _Unentered:
    """A view that needs nothing before the first result, and nothing after the last."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class _JsonView(_Unentered):
    def show(self, result: TrialResult) -> None:
        print_json_line(result.as_dict())

    def end(self, report: TrialReport) -> None:
        figures = {"skills": report.skills, "seconds": round(report.seconds, 3)}
        print_json_line({"summary": {**report.counts, **figures}})


class _LineView(_Unentered):
    """One line for each result as it comes, then every failure with its lines, then a table."""

    def show(self, result: TrialResult) -> None:
        out.print(_line(result))

    def end(self, report: TrialReport) -> None:
        for result in report.results:
            if result.status in {"failed", "flaky", "error"}:
                _print_failure(result)
        if report.skills > 1:
            _print_table(report)
        err.print(harmless_line(summary(report)))


class _BarView(_LineView):
    """A bar while trials run; only what did not pass gets a line."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._stack = ExitStack()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=err.console,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        self._stack.enter_context(self._bar)
        self._task = self._bar.add_task("testing", total=self._total)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def show(self, result: TrialResult) -> None:
        if result.status != "passed":
            err.print(_line(result))
        if self._task is not None:
            self._bar.advance(self._task)


def _line(result: TrialResult) -> Text:
    told = "" if result.status == "passed" else f": {headline(result)[:MAX_HEADLINE]}"
    kept = f" (kept: {', '.join(result.snapshots)})" if result.snapshots else ""
    text = f"  {result.trial.id}  {result.seconds:.2f} s{kept}{told}"
    return Text.assemble((f"{result.status:7}", _STYLES[result.status]), harmless_line(text))


def _print_failure(result: TrialResult) -> None:
    out.print()
    out.print(
        Text.assemble((f"{result.status} ", _STYLES[result.status]), (harmless_line(result.trial.id), "bold"))
    )
    for text in failure_lines(result):
        for line in text.split("\n"):
            out.print(Text(f"  {harmless_line(line)}", style=_diff_style(line)))


def _diff_style(line: str) -> str:
    signs = {"  -": "red", "  +": "green", "  @": "cyan"}
    return signs.get(line[:3], "")


def _print_table(report: TrialReport) -> None:
    out.print()
    for line in aligned([("SKILL", *(status.upper() for status in STATUSES), "SECONDS"), *_rows(report)]):
        out.print(line)


def _rows(report: TrialReport) -> Iterator[tuple[str, ...]]:
    for _, group in groupby(report.results, key=lambda one: one.trial.folder):
        results = list(group)
        counts = (str(sum(one.status == status for one in results)) for status in STATUSES)
        seconds = sum(one.seconds for one in results)
        yield (harmless_line(results[0].trial.skill), *counts, f"{seconds:.1f}")
