"""Runs as rows and pages show them."""

from __future__ import annotations

import pytest

from sandbox_skills.daemon.truth.run import RunEvent, RunKind, RunState, SkillRef
from sandbox_skills.daemon.ui.views.formatting import Time
from sandbox_skills.daemon.ui.views.outcomes import Badge, Tone
from sandbox_skills.daemon.ui.views.runs import (
    LOG_CHARACTERS,
    LogPiece,
    RunRow,
    command_of,
    log_pieces,
    result_pieces,
    run_page,
    run_row,
)
from tests.unit.daemon.ui.records import NOW, output, result, run


def test_a_row_says_what_ran_how_it_ended_and_how_long_it_took() -> None:
    assert run_row(run(), NOW) == RunRow(
        path="/runs/01JDZ6V7Z3M9QHTR4W8YB2C5KD",
        id="01JDZ6V7Z3M9QHTR4W8YB2C5KD",
        short_id="B2C5KD",
        badge=Badge("exit 0", Tone.GOOD),
        skill="csv-report",
        version="3",
        command="python3 report.py",
        took="2.0 s",
        created=Time("1 min ago", "1970-01-12 13:45:40 UTC"),
    )


def test_a_run_that_goes_on_takes_until_now() -> None:
    assert run_row(run(state=RunState.RUNNING, finished_at=None, outcome=None), NOW).took == "59.0 s"
    queued = run_row(run(state=RunState.QUEUED, started_at=None, finished_at=None, outcome=None), NOW)
    assert (queued.took, queued.badge.words) == ("\N{EN DASH}", "queued")


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"command": "a | b"}, "a | b"),
        ({"argv": ["a b", "c"]}, "'a b' c"),
        ({"script": "s.py", "args": ["x y"]}, "s.py 'x y'"),
        ({}, ""),
    ],
)
def test_a_command_is_shown_as_it_would_be_typed(request_: dict[str, object], expected: str) -> None:
    assert command_of(request_) == expected


def test_neighbours_of_one_stream_are_one_piece_and_other_events_none() -> None:
    events = [
        RunEvent("r", 1, "queued", {}, NOW),
        output("a\n"),
        output("b\n"),
        output("c\n", "stderr"),
        output("d\n"),
        RunEvent("r", 9, "finished", {}, NOW),
    ]
    assert log_pieces(events) == (
        LogPiece("stdout", "a\nb\n"),
        LogPiece("stderr", "c\n"),
        LogPiece("stdout", "d\n"),
    )


def test_of_a_long_log_the_end_is_shown_and_that_is_said() -> None:
    pieces = log_pieces([output("x" * LOG_CHARACTERS), output("end", "stderr")])
    assert pieces[0].kind == "note-line"
    assert pieces[-1] == LogPiece("stderr", "end")
    assert sum(len(piece.text) for piece in pieces[1:]) == LOG_CHARACTERS


def test_output_whose_events_are_gone_is_that_of_the_result() -> None:
    kept = result(stdout="a", stderr="b")
    assert result_pieces(kept) == (LogPiece("stdout", "a"), LogPiece("stderr", "b"))
    assert result_pieces(None) == ()


def test_a_run_that_goes_on_can_be_cancelled_once_and_has_a_stream() -> None:
    going = run(state=RunState.RUNNING, finished_at=None, outcome=None, result=None)
    page = run_page(going, (), (), base="/ui", now=NOW)
    assert (page.can_cancel, page.stream) == (True, "/ui/runs/01JDZ6V7Z3M9QHTR4W8YB2C5KD/stream?after=4")
    asked = run(state=RunState.RUNNING, finished_at=None, outcome=None, result=None, cancel_requested_at=NOW)
    page = run_page(asked, (), (), base="/ui", now=NOW)
    assert (page.can_cancel, page.badge.words) == (False, "cancelling")


def test_a_run_that_ended_has_no_stream_and_tells_what_it_used() -> None:
    page = run_page(run(limits_hit=("pids",), attempt=2), (), (), base="/ui", now=NOW)
    assert (page.can_cancel, page.can_rerun, page.stream) == (False, True, "")
    facts = dict(page.facts)
    assert (facts["Waited"], facts["Took"], facts["Processor time"]) == ("1.0 s", "2.0 s", "20 ms")
    assert (facts["Most memory"], facts["Limits hit"], facts["Attempt"]) == ("8.6 MiB", "pids", "2")


def test_hints_warnings_notes_and_files_that_were_left_are_told() -> None:
    told = result(
        hints=[{"kind": "module_missing", "subject": "numpy", "advice": "ship it"}],
        warnings=["w"],
        notes=["n"],
        skipped={"b": "link", "a": "link"},
        stdout_truncated=True,
    )
    page = run_page(run(result=told), (), (), base="/ui", now=NOW)
    assert page.notes == ("numpy: ship it", "w", "n", "2 files left: a, b")
    assert page.output_note == "stdout: the rest was not kept"


def test_a_conversation_is_named_as_one_and_not_run_again() -> None:
    agent = "01JDZ6V7Z3M9QHTR4W8YB2C5KB"
    talk = run(kind=RunKind.AGENT, skill=SkillRef(), request={"agent": agent, "base": 0})
    assert run_row(talk, NOW).path == f"/playground/{agent}"
    assert run_row(run(kind=RunKind.AGENT, request={"agent": "../x"}), NOW).path == f"/runs/{talk.id}"
    page = run_page(talk, (), (), base="/ui", now=NOW)
    assert (page.skill, page.can_rerun) == ("conversation", False)
