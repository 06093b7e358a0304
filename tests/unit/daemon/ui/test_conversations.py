"""Conversations as the playground shows them, and what a page that follows one has to do."""

from __future__ import annotations

from dataclasses import replace
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
    words_of_legs,
)
from sandbox_skills.daemon.ui.views.runs import LogPiece
from sandbox_skills.daemon.ui.views.updates import Append, Renew


def event(kind: str, /, seq: int = 1, **data: Any) -> RunEvent:  # noqa: ANN401  # any field of an event
    return RunEvent("r", seq, kind, data, 0.0)


def numbered(*events: RunEvent) -> list[RunEvent]:
    return [replace(one, seq=seq) for seq, one in enumerate(events, 1)]


QUEUED = event("queued")
STARTED = event("tool_started", id="c", name="skill_run", arguments={"skill": "a"})
PRINTED = event("tool_output", id="c", stream="stdout", text="1\n")
FINISHED = event(
    "tool_finished", id="c", name="skill_run", text="ok", status="ok", is_error=False, seconds=0.5
)
WAITS = event("approval_needed", id="c", name="skill_run", arguments={}, kind="approval")
DONE = event("done", status="done")
WAITING = event("done", status="waiting")


def only_call(*events: RunEvent) -> Call:
    call = transcript([], events)[0]
    assert isinstance(call, Call)
    return call


def test_a_question_and_its_answer() -> None:
    events = numbered(
        QUEUED, event("turn_started", step=1), event("text", text="Hel"), event("text", text="lo")
    )
    assert transcript(["Hi"], events) == [Said("you", "Hi"), Said("model", "Hello", "said-3")]


def test_a_call_has_its_arguments_its_output_and_its_end() -> None:
    call = only_call(
        STARTED, PRINTED, PRINTED, event("tool_output", id="c", stream="stderr", text="e"), FINISHED
    )
    assert call.arguments == '{\n  "skill": "a"\n}'
    assert call.output == [LogPiece("stdout", "1\n1\n"), LogPiece("stderr", "e")]
    assert (call.badge.words, call.text, call.took, call.waits) == ("done", "ok", "500 ms", False)


@pytest.mark.parametrize(
    ("status", "is_error", "expected"),
    [("ok", True, "failed"), ("rejected", True, "rejected"), ("sandbox_error", True, "sandbox error")],
)
def test_how_a_call_failed(status: str, *, is_error: bool, expected: str) -> None:
    assert only_call(event("tool_finished", id="c", status=status, is_error=is_error)).badge.words == expected


def test_a_call_waits_for_a_word_and_runs_after_it() -> None:
    assert (only_call(WAITS).waits, only_call(WAITS).badge.words) == (True, "waits for you")
    assert (only_call(WAITS, STARTED).waits, only_call(WAITS, STARTED).badge.words) == (False, "running")
    assert not only_call(event("approval_needed", id="c", name="n", kind="manual")).waits


def test_an_answer_that_broke_off_is_not_shown() -> None:
    events = [event("turn_started", step=1), event("text", text="bro"), event("turn_restarted", reason="x")]
    assert transcript([], numbered(*events, event("text", text="whole"))) == [
        Said("model", "whole", "said-4")
    ]


def test_what_the_user_says_stands_where_it_was_said() -> None:
    events = numbered(QUEUED, event("text", text="a"), DONE, QUEUED, event("text", text="b"), DONE)
    told = transcript(["one", "two"], events)
    assert [turn.text for turn in told] == ["one", "a", "two", "b"]


def test_a_leg_that_goes_on_after_a_word_on_a_call_says_nothing_anew() -> None:
    assert words_of_legs(["one", "two"], [QUEUED, WAITING, QUEUED, DONE, QUEUED]) == ["one", "", "two"]


def test_after_a_leg_that_failed_something_was_said_only_where_there_is_more() -> None:
    assert words_of_legs(["one", "two"], [QUEUED, QUEUED, DONE]) == ["one", "two"]
    assert words_of_legs(["one", "two"], [QUEUED, QUEUED, DONE, QUEUED]) == ["one", "", "two"]
    assert words_of_legs([], [QUEUED, QUEUED]) == ["", ""]


def test_a_page_adds_text_that_grows_and_is_renewed_for_all_else() -> None:
    reader = TranscriptReader()
    events = numbered(event("text", text="a"), event("text", text="b"), STARTED, PRINTED, FINISHED)
    did = [reader.take(one) for one in events]
    assert did == [
        Renew(),
        Append("said-1", "said", "b"),
        Renew(),
        Append("call-3", "stdout", "1\n"),
        Renew(),
    ]


def test_what_is_not_known_changes_nothing() -> None:
    assert TranscriptReader().take(event("something_new")) is None
    assert TranscriptReader().take(event("tool_output", id="unknown", text="x")) is None


KINDS = [
    "queued",
    "text",
    "reasoning",
    "turn_started",
    "turn_restarted",
    "tool_started",
    "tool_output",
    "done",
]


@given(st.lists(st.builds(event, st.sampled_from(KINDS), id=st.sampled_from("ab"), text=st.text(max_size=3))))
def test_ids_of_elements_are_never_given_twice(events: list[RunEvent]) -> None:
    turns = transcript(["q", "r"], numbered(*events))
    ids = [one.id if isinstance(one, Said) else one.log_id for one in turns]
    named = [one for one in ids if one]
    assert len(named) == len(set(named))
