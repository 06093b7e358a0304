"""Conversations as the playground shows them, and what a page that follows one has to do."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.daemon.truth.run import RunEvent
from sandbox_skills.daemon.ui.views.conversations import (
    Call,
    Said,
    TranscriptReader,
    transcript,
)
from sandbox_skills.daemon.ui.views.runs import LogPiece
from sandbox_skills.daemon.ui.views.updates import Append, Renew


def event(kind: str, /, **data: Any) -> RunEvent:  # noqa: ANN401  # any field of an event
    return RunEvent("r", 1, kind, data, 0.0)


STARTED = event("tool_started", id="c", name="skill_run", arguments={"skill": "a"})
PRINTED = event("tool_output", id="c", stream="stdout", text="1\n")
FINISHED = event(
    "tool_finished", id="c", name="skill_run", text="ok", status="ok", is_error=False, seconds=0.5
)


def test_a_question_and_its_answer() -> None:
    told = transcript(
        "Hi", [event("turn_started", step=1), event("text", text="Hel"), event("text", text="lo")]
    )
    assert told.turns == [Said("you", "Hi"), Said("model", "Hello", "said-1")]


def test_a_call_has_its_arguments_its_output_and_its_end() -> None:
    call = transcript(
        "", [STARTED, PRINTED, PRINTED, event("tool_output", id="c", stream="stderr", text="e"), FINISHED]
    ).turns[0]
    assert isinstance(call, Call)
    assert call.arguments == '{\n  "skill": "a"\n}'
    assert call.output == [LogPiece("stdout", "1\n1\n"), LogPiece("stderr", "e")]
    assert (call.badge.words, call.text, call.took, call.waits) == ("done", "ok", "500 ms", False)


@pytest.mark.parametrize(
    ("status", "is_error", "expected"),
    [("ok", True, "failed"), ("rejected", True, "rejected"), ("sandbox_error", True, "sandbox error")],
)
def test_how_a_call_failed(status: str, *, is_error: bool, expected: str) -> None:
    call = transcript("", [event("tool_finished", id="c", name="n", status=status, is_error=is_error)]).turns[
        0
    ]
    assert isinstance(call, Call)
    assert call.badge.words == expected


def test_a_call_waits_for_a_word_and_runs_after_it() -> None:
    reader = TranscriptReader("")
    reader.take(event("approval_needed", id="c", name="n", arguments={}, kind="approval"))
    call = reader.transcript.turns[0]
    assert isinstance(call, Call)
    assert (call.waits, call.badge.words) == (True, "waits for you")
    reader.take(STARTED)
    assert (call.waits, call.badge.words) == (False, "running")
    assert len(reader.transcript.turns) == 1


def test_an_answer_that_broke_off_is_not_shown() -> None:
    events = [event("turn_started", step=1), event("text", text="bro"), event("turn_restarted", reason="x")]
    assert transcript("Hi", [*events, event("text", text="whole")]).turns[1:] == [
        Said("model", "whole", "said-1")
    ]


def test_a_page_adds_text_that_grows_and_is_renewed_for_all_else() -> None:
    reader = TranscriptReader("Hi")
    did = [reader.take(one) for one in (event("text", text="a"), event("text", text="b"), STARTED, PRINTED)]
    assert isinstance(did[0], Renew)
    assert did[1] == Append("said-1", "said", "b")
    assert isinstance(did[2], Renew)
    assert did[3] == Append("call-0", "stdout", "1\n")
    assert isinstance(reader.take(FINISHED), Renew)


def test_what_is_not_known_changes_nothing() -> None:
    assert TranscriptReader("").take(event("something_new")) is None
    assert TranscriptReader("").take(event("tool_output", id="unknown", text="x")) is None


KINDS = [
    "text",
    "reasoning",
    "turn_started",
    "turn_restarted",
    "tool_started",
    "tool_output",
    "tool_finished",
]


@given(st.lists(st.builds(event, st.sampled_from(KINDS), id=st.sampled_from("ab"), text=st.text(max_size=3))))
def test_ids_of_elements_are_never_given_twice(events: list[RunEvent]) -> None:
    turns = transcript("q", events).turns
    ids = [one.id if isinstance(one, Said) else one.log_id for one in turns]
    assert len(ids) == len(set(ids))
