"""A run as rows and pages show it. Pure: a record of the database in, texts out."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox_skills.daemon.truth.ids import is_id
from sandbox_skills.daemon.truth.run import OUTPUT, RunKind, RunState
from sandbox_skills.daemon.ui.views.formatting import Time, counted, duration, short_id, size, time_of
from sandbox_skills.daemon.ui.views.log_text import page_line, page_text
from sandbox_skills.daemon.ui.views.outcomes import Badge, run_badge
from sandbox_skills.daemon.ui.views.updates import Append, Renew

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from sandbox_skills.daemon.truth.run import Run, RunEvent
    from sandbox_skills.daemon.ui.views.files import FileView

MAX_COMMAND = 4000
MAX_REQUEST = 20_000
"""Characters that a page shows: the inputs of a request may be long."""

LOG_CHARACTERS = 262_144
"""Of a log that a page begins with: its end, some 4,000 lines."""

STATES = (("", "all"), *((str(state), str(state)) for state in RunState))
"""What a list can be narrowed to."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """One line of a list of runs. `path` leads to it, or to the conversation that it is a part of."""

    path: str
    id: str
    short_id: str
    badge: Badge
    skill: str
    version: str
    command: str
    took: str
    created: Time


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Text of one stream; `kind` is stdout, stderr, or `note-line` for what the dashboard says itself."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class RunPage:
    """All that the page of one run shows. `stream` is where its events come from, empty where none will come."""

    id: str
    badge: Badge
    skill: str
    version: str
    command: str
    session: str
    created: Time
    facts: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    output: tuple[LogPiece, ...]
    output_note: str
    files: tuple[FileView, ...]
    files_note: str
    request: str
    can_cancel: bool
    can_rerun: bool
    stream: str


@dataclass(frozen=True, slots=True)
class RunList:
    """A list of runs, and what was asked for. `next` leads to older ones, empty where there are none."""

    rows: tuple[RunRow, ...]
    state: str
    skill: str
    session: str
    first_page: bool
    next: str
    states: tuple[tuple[str, str], ...] = STATES


def run_row(run: Run, now: float) -> RunRow:
    """Returns a run as one line of a list."""
    agent = str(run.request.get("agent", "")) if run.kind is RunKind.AGENT else ""
    return RunRow(
        f"/playground/{agent}" if is_id(agent) else f"/runs/{run.id}",
        run.id,
        short_id(run.id),
        _badge(run),
        _name(run),
        page_line(run.skill.version),
        page_line(command_of(run.request))[:MAX_COMMAND],
        duration(_took(run, now)),
        time_of(run.created_at, now),
    )


def run_page(
    run: Run, output: Sequence[LogPiece], files: Sequence[FileView], *, base: str, now: float
) -> RunPage:
    """Returns the page of a run whose output and files are at hand."""
    going = run.state is not RunState.FINISHED
    result = run.result or {}
    return RunPage(
        id=run.id,
        badge=_badge(run),
        skill=_name(run),
        version=page_line(run.skill.version),
        command=page_text(command_of(run.request))[:MAX_COMMAND],
        session=run.session_id or "",
        created=time_of(run.created_at, now),
        facts=tuple(_facts(run, now)),
        notes=tuple(_notes(result)),
        output=tuple(output),
        output_note=_output_note(run, result),
        files=tuple(files),
        files_note=counted(len(files), "file"),
        request=_pretty(run.request),
        can_cancel=going and run.cancel_requested_at is None,
        can_rerun=run.kind is RunKind.SKILL,
        stream=f"{base}/runs/{run.id}/stream?after={run.event_last}" if going else "",
    )


def command_of(request: Mapping[str, Any]) -> str:
    """Returns what a request runs, as somebody would type it."""
    if request.get("command"):
        return str(request["command"])
    if request.get("argv"):
        return shlex.join(map(str, request["argv"]))
    if request.get("script"):
        return shlex.join([str(request["script"]), *map(str, request.get("args") or ())])
    return ""


def log_pieces(events: Iterable[RunEvent]) -> tuple[LogPiece, ...]:
    """Returns what a run printed, neighbours of one stream joined; of too much only the end, which is said."""
    pieces: list[LogPiece] = []
    for event in events:
        piece = log_piece(event)
        if piece is None:
            continue
        if pieces and pieces[-1].kind == piece.kind:
            piece = LogPiece(piece.kind, pieces.pop().text + piece.text)
        pieces.append(piece)
    return _end_of(pieces)


def log_piece(event: RunEvent) -> LogPiece | None:
    """Returns what an event adds to the log, None for one that tells of something else."""
    if event.kind != OUTPUT:
        return None
    stream = "stderr" if event.data.get("stream") == "stderr" else "stdout"
    return LogPiece(stream, page_text(str(event.data.get("text", ""))))


def run_update(event: RunEvent) -> Append | Renew:
    """Returns what a page has to do that showed all before an event."""
    piece = log_piece(event)
    return Renew() if piece is None else Append("log", piece.kind, piece.text)


def result_pieces(result: Mapping[str, Any] | None) -> tuple[LogPiece, ...]:
    """Returns the output that a result holds, for a run whose events are not kept any more."""
    kept = result or {}
    pieces = [LogPiece(name, page_text(str(kept[name]))) for name in ("stdout", "stderr") if kept.get(name)]
    return _end_of(pieces)


def _end_of(pieces: Sequence[LogPiece]) -> tuple[LogPiece, ...]:
    left, kept = LOG_CHARACTERS, list[LogPiece]()
    for piece in reversed(pieces):
        kept.append(LogPiece(piece.kind, piece.text[-left:]))
        left -= len(piece.text)
        if left <= 0:
            kept.append(LogPiece("note-line", "… the beginning is not shown\n"))
            break
    return tuple(reversed(kept))


def _badge(run: Run) -> Badge:
    return run_badge(run.state, run.outcome, cancelling=run.cancel_requested_at is not None)


def _name(run: Run) -> str:
    return page_line(run.skill.name) or ("conversation" if run.kind is RunKind.AGENT else "no skill")


def _took(run: Run, now: float) -> float | None:
    if run.started_at is None:
        return None
    return (run.finished_at or now) - run.started_at


def _facts(run: Run, now: float) -> Iterable[tuple[str, str]]:
    if run.started_at is not None:
        yield "Waited", duration(run.started_at - run.created_at)
        yield "Took", duration(_took(run, now))
    result = run.result or {}
    if "cpu_seconds" in result:
        yield "Processor time", duration(float(result["cpu_seconds"]))
    if result.get("max_rss"):
        yield "Most memory", size(int(result["max_rss"]))
    if run.limits_hit:
        yield "Limits hit", ", ".join(name.replace("_", " ") for name in run.limits_hit)
    if run.attempt > 1:
        yield "Attempt", str(run.attempt)
    if run.skill.digest:
        yield "Content", run.skill.digest[:12]


def _notes(result: Mapping[str, Any]) -> Iterable[str]:
    for hint in result.get("hints") or ():
        yield page_line(f"{_hint_words(hint)}")
    for name in ("warnings", "notes"):
        yield from (page_line(str(one)) for one in result.get(name) or ())
    skipped: Mapping[str, str] = result.get("skipped") or {}
    if skipped:
        yield page_line(f"{counted(len(skipped), 'file')} left: " + ", ".join(sorted(skipped)[:5]))


def _hint_words(hint: Mapping[str, Any]) -> str:
    subject = hint.get("subject")
    return f"{subject}: {hint.get('advice', '')}" if subject else str(hint.get("advice", ""))


def _output_note(run: Run, result: Mapping[str, Any]) -> str:
    if run.state is RunState.QUEUED:
        return "waits for its turn"
    cut = [name for name in ("stdout", "stderr") if result.get(f"{name}_truncated")]
    return f"{' and '.join(cut)}: the rest was not kept" if cut else ""


def _pretty(request: Mapping[str, Any]) -> str:
    text = json.dumps(request, indent=2, ensure_ascii=False, default=str)
    return page_text(text if len(text) <= MAX_REQUEST else text[:MAX_REQUEST] + "\n…")
