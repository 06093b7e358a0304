"""Reading what servers and models send: any bytes, any JSON, and the few that have a meaning."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.controller.calls import MAX_CALL_ID, NAME, own_call_id, read_arguments, read_turn
from sandbox_skills.controller.chat_stream import ChatAccumulator
from sandbox_skills.controller.failures import failure_of, repair_of
from sandbox_skills.controller.history import (
    DROPPED,
    LOST,
    call_output,
    drop_old_outputs,
    paired,
    trimmed,
    user_message,
)
from sandbox_skills.controller.json_values import parsed
from sandbox_skills.controller.loop import LoopState, PendingCall
from sandbox_skills.controller.responses_stream import ResponsesAccumulator
from sandbox_skills.controller.state import RunState
from sandbox_skills.controller.turn import Answer, ModelCall, Usage
from sandbox_skills.errors import ConversationError, ModelAnswerError, ModelError
from sandbox_skills.outgoing.sse import MAX_EVENT, SseDecoder
from sandbox_skills.toolsets.base import Conversation

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    [
        "type",
        "delta",
        "item",
        "response",
        "output",
        "error",
        "output_index",
        "choices",
        "call_id",
        "arguments",
        "status",
    ]
)
KINDS = st.sampled_from(
    [
        "response.output_item.added",
        "response.output_item.done",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_text.delta",
        "response.completed",
        "function_call",
        "message",
    ]
)
EVENTS: Any = st.dictionaries(
    KEYS, st.dictionaries(KEYS, JSON | KINDS, max_size=4) | JSON | KINDS, max_size=6
)


def call(call_id: Any, arguments: Any = "{}", **more: Any) -> dict[str, Any]:  # noqa: ANN401  # any JSON
    return {"type": "function_call", "call_id": call_id, "name": "look", "arguments": arguments, **more}


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"))), st.data())
def test_events_are_the_same_wherever_they_are_cut(texts: list[str], data: st.DataObject) -> None:
    whole = b"".join(b": c\r\ndata: " + one.encode() + b"\r\n\r\n" for one in texts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)))))
    decoder = SseDecoder(ModelAnswerError)
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    found = [event for piece in pieces for event in decoder.feed(piece)] + decoder.end()
    assert found == [one.encode() for one in texts]


def test_an_event_of_several_lines_and_one_without_its_end() -> None:
    decoder = SseDecoder(ModelAnswerError)
    assert decoder.feed(b"\xef\xbb\xbfdata: a\ndata:b\n\ndata: c") == [b"a\nb"]
    assert decoder.end() == [b"c"]


@pytest.mark.parametrize("line", [b"data: ", b"data: x\n" * 8])
def test_an_event_without_end_is_refused(line: bytes) -> None:
    decoder = SseDecoder(ModelAnswerError)
    decoder.feed(line)
    with pytest.raises(ModelAnswerError, match="more than 32 MiB"):
        [decoder.feed(b"x" * 2**20) for _ in range(1 + MAX_EVENT // 2**20)]


@given(st.lists(EVENTS, max_size=8))
def test_no_event_is_a_surprise(events: list[dict[str, Any]]) -> None:
    for accumulator in (ResponsesAccumulator(), ChatAccumulator()):
        try:
            for event in events:
                accumulator.feed(event)
            answer = accumulator.end()
        except ModelError:
            continue
        turn = read_turn(answer, [])
        json.dumps(turn.items)
        assert isinstance(turn.text, str)
        assert [one.id for one in turn.calls] == [
            item["call_id"] for item in turn.items if item.get("type") == "function_call"
        ]


@given(st.lists(JSON | st.text(min_size=60, max_size=80), max_size=6), JSON)
def test_every_call_has_an_id_and_a_name_that_are_taken(ids: list[Any], name: Any) -> None:  # noqa: ANN401  # any JSON
    turn = read_turn(Answer(tuple({**call(one), "name": name} for one in ids)), [])
    own = [str(item["call_id"]) for item in turn.items]
    assert len(set(own)) == len(own)
    assert all(0 < len(one) <= MAX_CALL_ID for one in own)
    assert all(NAME.fullmatch(str(item["name"])) for item in turn.items)


@given(st.text())
def test_arguments_are_an_object_or_a_fault(raw: str) -> None:
    (made,) = read_turn(Answer((call("c", raw),)), []).calls
    assert isinstance(made.arguments, dict)
    assert not made.fault or (made.fault.startswith("the arguments are") and made.arguments == {})


def test_numbers_that_json_does_not_have_are_not_sent_again() -> None:
    assert parsed(b'{"a": NaN, "b": [-Infinity]}') == {"a": None, "b": [None]}


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4))
def test_arguments_are_read_as_json(arguments: dict[str, Any]) -> None:
    raw = json.dumps(arguments)
    assert read_arguments(raw) == arguments
    assert read_arguments(raw + raw) == arguments
    assert read_arguments("{}" + raw) == arguments


@pytest.mark.parametrize(
    "raw", ['{"a": NaN}', '{"a": 1}{"a": 2}', "[" * 100_000, '{"a": ' + "9" * 5000 + "}", "{'a': 1}"]
)
def test_arguments_that_are_no_json_are_told(raw: str) -> None:
    with pytest.raises(ValueError, match="the arguments are") as caught:
        read_arguments(raw)
    assert len(str(caught.value)) < 700


def test_a_made_id_is_the_same_each_time() -> None:
    assert own_call_id("x" * 65, set()) == own_call_id("x" * 65, set())
    taken = {own_call_id("", set())}
    assert own_call_id("", taken) not in taken


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "1e400"}, None),
        ({}, None),
    ],
)
def test_hints_of_when_to_come_back(headers: dict[str, str], seconds: float | None) -> None:
    assert failure_of(429, headers, None).retry_after == seconds


def test_a_date_is_a_hint_too_and_so_is_what_the_body_says() -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    dated = failure_of(503, {"retry-after": soon}, None).retry_after
    assert dated is not None
    assert 25 < dated <= 30
    body = {"error": {"message": "m", "availability": {"retryable": False, "retry_after": 3}}}
    error = failure_of(503, {}, body)
    assert (error.retry_after, error.retryable) == (3, False)
    reset = {
        "error": {
            "code": 429,
            "message": "m",
            "metadata": {"headers": {"X-RateLimit-Reset": str(time.time() * 1000 + 9000)}},
        }
    }
    assert 8 < (failure_of(429, {}, reset).retry_after or 0) <= 9


@given(st.none() | st.integers(100, 700), JSON | st.dictionaries(KEYS | st.just("metadata"), EVENTS | JSON))
def test_any_body_is_an_error_that_can_be_told(status: int | None, body: Any) -> None:  # noqa: ANN401  # any JSON
    error = failure_of(status, {}, body)
    assert error.message
    assert len(error.message) < 1200
    assert error.status is not None
    assert repair_of(error) in {None, "reasoning", "calls"}


def test_a_history_of_others_is_paired() -> None:
    items: list[Any] = [
        call("a"),
        call_output("b", "x"),
        call("c"),
        call_output("c", "1"),
        call_output("c", "2"),
    ]
    assert paired(items) == [call("a"), call_output("a", LOST), call("c"), call_output("c", "1")]


def test_loaded_skills_stay_whatever_is_trimmed() -> None:
    items: list[Any] = [user_message("Hi.")]
    for number in range(5):
        items += [call(f"c{number}"), call_output(f"c{number}", str(number))]
    kept = trimmed(items, drop_old_outputs, ["c0"])
    told = [item["output"] for item in kept if item["type"] == "function_call_output"]
    assert told == ["0", DROPPED, DROPPED, "3", "4"]
    gone = trimmed(items, lambda all_items: all_items[-2:], ["c1"])
    assert gone == [call("c1"), call_output("c1", "1"), call("c4"), call_output("c4", "4")]


ITEM = st.dictionaries(st.sampled_from(["role", "content", "x"]), JSON, max_size=3)


@given(
    st.lists(ITEM, max_size=4),
    st.lists(
        st.tuples(st.text(min_size=1, max_size=5), st.sampled_from(["open", "running", "done", "approval"]))
    ),
)
def test_a_state_is_what_it_was(items: list[Any], pending: list[tuple[str, Any]]) -> None:
    calls = {
        call_id: PendingCall(ModelCall(call_id, "look", {"n": [1]}), status, "o")
        for call_id, status in pending
    }
    state = RunState(
        Conversation("id", "tenant", "agent", {"k": "v"}),
        LoopState(
            "calling" if calls else "done",
            (*items, *(call(one) for one in calls)),
            tuple(calls.values()),
            usage=Usage(1, 2, 3, 4, 0.5, 1),
            streaks=(("s", 2),),
        ),
        "m",
    )
    assert RunState.loads(state.dumps()) == state


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no saved conversation"),
        ("[]", "no saved conversation"),
        ("{}", "no saved conversation"),
        ('{"version": 2}', "not of version 1"),
        (b"\xff", "no saved conversation"),
    ],
)
def test_what_is_no_state_is_told(text: str | bytes, told: str) -> None:
    with pytest.raises(ConversationError, match=told):
        RunState.loads(text)


@pytest.mark.parametrize(
    "change",
    [
        {"items": [call("a")]},
        {"items": [call("a"), call_output("a", "x"), call("a"), call_output("a", "x")]},
        {"phase": "calling"},
        {"phase": "calling", "pending": [{"call": {"id": "a", "name": "run"}, "status": "open"}]},
        {"unknown": 1},
    ],
)
def test_a_state_that_somebody_changed_is_refused(change: dict[str, Any]) -> None:
    saved = json.loads(RunState(Conversation("id", "t"), LoopState("done")).dumps())
    saved["loop"] |= change
    with pytest.raises(ConversationError):
        RunState.loads(json.dumps(saved))
